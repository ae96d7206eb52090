/// The shares of users in a full outbox (docs/decisions/0019).
package enum OutboxShares {
    /// Returns the share of a user in bytes. A user with no more than an equal part of the room loses no entries,
    /// regardless of how many other users have more.
    package static func share(of room: Int, among users: Int) -> Int { room / max(1, users) }

    /// Returns the number of bytes that each of the users with the most bytes may keep, so that `excess` bytes are
    /// freed in total. Users with fewer bytes keep all of theirs. `bytes` holds the bytes of each user.
    package static func level(_ bytes: [Int], excess: Int) -> Int {
        let falling = bytes.sorted(by: >)
        var sum = 0
        for (place, most) in falling.enumerated() {
            sum += most
            let next = place + 1 < falling.count ? falling[place + 1] : 0
            // All users up to here are cut to the same level.
            let level = (sum - excess) / (place + 1)
            if level >= next { return max(0, level) }
        }
        return 0
    }
}
