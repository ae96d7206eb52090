import CallCore

/// The head of a backup (docs/operations.md, Backup and restore).
package struct BackupHead: Equatable, Sendable {
    package enum Kind: String, Sendable {
        case sqlite, redis
    }

    package let kind: Kind
    /// The format of the store's data (`StoreFormat`). Only a store of the same kind and format takes the backup.
    package let format: Int64
    /// The topic root of the deployment that owns the store; nil for a store that no deployment owns yet.
    package let topicRoot: String?

    package init(kind: Kind, format: Int64, topicRoot: String?) {
        self.kind = kind
        self.format = format
        self.topicRoot = topicRoot
    }
}

/// An entry of a backup: fields whose meaning the store of the backup's kind knows.
package typealias BackupEntry = [[UInt8]]

/// The receiver of the entries of a backup, in their order.
package typealias BackupSink = (BackupEntry) throws(StoreError) -> Void
