/// The topic root of the deployment that owns a store. Two deployments on the same store would serve each other's
/// deadlines, and would publish events on topics without a subscriber.
///
/// A store without a stamp gets the stamp of the first process that opens it.
package struct DeploymentStamp: Sendable {
    package let topicRoot: String
    /// Whether this deployment takes the store over from its current owner.
    package var takesOver: Bool

    package init(topicRoot: String, takesOver: Bool = false) {
        self.topicRoot = topicRoot
        self.takesOver = takesOver
    }

    /// Returns whether the stamp has to be written over `found`, the topic root in the store. Throws `StoreError` with
    /// the code `foreign` when the store belongs to another deployment.
    package func mustBeWritten(over found: [UInt8]?, in store: String) throws(StoreError) -> Bool {
        guard let found else { return true }
        // The comparison is by bytes: two Unicode spellings of the same letter are two topics.
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

    /// The number of bytes of another deployment's topic root that an error shows. The text goes into logs and may come
    /// from any program.
    private static let shownBytes = 256
}
