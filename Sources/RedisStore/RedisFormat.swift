import CallStore

/// The format of the data in Redis. The format's number is the first part of the entry under `clockKey`, before the
/// coordinators' agreement on the clock. This entry exists before all other keys, is read at each check of the clock,
/// and is written anew when Redis was emptied. A coordinator therefore also learns at once when a coordinator of a
/// later version has begun to use the same Redis.
enum RedisFormat {
    /// The current format. Each change of the keys or their values raises this number by 1 (`FormatTests`,
    /// docs/decisions/0028).
    static let format = StoreFormat(1)

    /// Returns the value under `clockKey`.
    static func entry(_ clock: SharedClock) -> String { "\(format.number) \(clock.text)" }

    /// Returns the clock in such an entry, or nil when the clock cannot be read. Throws when Redis is in another
    /// format.
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
