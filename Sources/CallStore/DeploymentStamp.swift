/// Whose calls a store holds: the deployment with this topic root. Two deployments on one store would serve each other's
/// deadlines, and tell them on topics where nobody listens.
///
/// A store without a stamp gets that of the first who opens it.
package struct DeploymentStamp: Sendable {
    package let topicRoot: String
    /// The store is taken over from the deployment whose it is.
    package var takesOver: Bool

    package init(topicRoot: String, takesOver: Bool = false) {
        self.topicRoot = topicRoot
        self.takesOver = takesOver
    }

    /// Whether the stamp has to be written into the store in which `found` stands. Throws when the store is another deployment's.
    package func mustBeWritten(over found: [UInt8]?, in store: String) throws(StoreError) -> Bool {
        guard let found else { return true }
        // As bytes: two spellings of one letter are two topics.
        if found.elementsEqual(topicRoot.utf8) { return false }
        guard takesOver else {
            let other = String(decoding: found.prefix(Self.shownBytes), as: UTF8.self)
            throw StoreError(
                .foreign,
                """
                \(store) belongs to the deployment with the topic root "\(other)", and this one has "\(topicRoot)": give this one \
                a store of its own (another file, another Redis database or --redis-prefix), or, when the other one is \
                stopped for good, take the store over with --take-over-store
                """)
        }
        return true
    }

    /// Of another deployment's topic root: it goes into logs, and may be what nobody of us has written.
    private static let shownBytes = 256
}
