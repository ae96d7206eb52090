/// A key in parts, in their order, which are put together where it is sent.
struct RedisKey {
    /// What all keys of its kind begin with.
    let prefix: [UInt8]
    var name = ""
    var end: StaticString = ""
    let kind: String
    var detail = ""

    /// How many bytes it has.
    var count: Int {
        prefix.count + name.utf8.count + end.utf8CodeUnitCount + kind.utf8.count + detail.utf8.count
    }
}
