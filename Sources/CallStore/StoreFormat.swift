/// The number of the format in which a store keeps everything: it stands in the store, and a store in another format is refused
/// (docs/decisions/0028). Each kind of store counts its own.
package struct StoreFormat: Sendable {
    package let number: Int64

    package init(_ number: Int64) { self.number = number }

    /// Why a store is refused that is in another format. `found` is nil for one that names no format; `instead` says which other store to use.
    package func refusal(of found: Int64?, in store: String, instead: String) -> StoreError {
        let reason =
            switch found {
            case nil: "it names no format, so a build before 0.2.0 or another program wrote it"
            case let found? where found > number: "it is in format \(found), of a later version of Bellwire"
            case let found?: "it is in format \(found), of an earlier build, from which there is no upgrade"
            }
        return StoreError(
            .foreign,
            """
            \(store) cannot be used: \(reason), and this version reads and writes format \(number). Nothing in it was changed. \
            Start with \(instead), or use the version of Bellwire that wrote it
            """)
    }
}
