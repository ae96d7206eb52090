import CallStore

/// The format of what is kept in Redis. Its number stands in front of what coordinators agree on about the clock, under `clockKey`: that
/// entry is there before anything else, is read at each look at the clock and written anew when Redis was emptied. So a coordinator also learns
/// at once that one of a later version has begun with its Redis.
enum RedisFormat {
    /// The keys, and what stands under each of them. Each change of either adds one to it (`FormatTests`, docs/decisions/0028).
    static let format = StoreFormat(1)

    /// What stands under `clockKey`.
    static func entry(_ clock: SharedClock) -> String { "\(format.number) \(clock.text)" }

    /// What such an entry says of the clock; nil when it says nothing that can be read. Throws when Redis is in another format.
    static func clock(in entry: RedisBytes, _ address: RedisAddress) throws(StoreError) -> SharedClock? {
        var rest = entry
        let found = rest.part(before: UInt8(ascii: " ")).flatMap(StoredNumber.time)
        guard found == format.number else {
            throw format.refusal(
                of: found, in: "\(address)", instead: "another database (redis://HOST/NUMBER) or another --redis-prefix"
            )
        }
        return rest.text.flatMap { SharedClock($0) }
    }
}
