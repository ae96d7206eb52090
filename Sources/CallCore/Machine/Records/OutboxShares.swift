/// How much room of a full outbox each user gives up (docs/decisions/0019).
package enum OutboxShares {
    /// Nobody gives up anything who has no more than an equal part of the room, however many others have more.
    package static func share(of room: Int, among users: Int) -> Int { room / max(1, users) }

    /// What each of those with the most bytes may keep, so that `excess` bytes go: whoever has less keeps all. `bytes`: of each user.
    package static func level(_ bytes: [Int], excess: Int) -> Int {
        let falling = bytes.sorted(by: >)
        var sum = 0
        for (place, most) in falling.enumerated() {
            sum += most
            let next = place + 1 < falling.count ? falling[place + 1] : 0
            // All up to here come down to the same level.
            let level = (sum - excess) / (place + 1)
            if level >= next { return max(0, level) }
        }
        return 0
    }
}
