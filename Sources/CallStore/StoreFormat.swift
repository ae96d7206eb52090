/// The number of the format of all data in a store. The number stands in the store, and a store with another format is
/// refused (docs/decisions/0028). Each kind of store has its own numbers.
package struct StoreFormat: Sendable {
    package let number: Int64

    package init(_ number: Int64) { self.number = number }

    /// Returns the error that refuses a store of another format. `found` is nil for a store without a format number;
    /// `instead` says how to use another store.
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
