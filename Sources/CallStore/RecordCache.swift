import CallCore
import Glibc

/// A cache of records as they were last read or written, so that an unchanged record is not decoded again. Equal bytes
/// are the same record, regardless of the writes in between.
package struct RecordCache {
    package init() {}

    /// The type is a class because entries are large, and dictionaries move their values.
    private final class Entry {
        let bytes: [UInt8]
        let record: Record

        init(bytes: [UInt8], record: Record) {
            self.bytes = bytes
            self.record = record
        }
    }

    /// The size of the new entries in bytes; beyond this size, the old entries are forgotten. In memory, a call takes
    /// about three times as much in addition.
    package static let capacity = 1024 * 1024
    /// The largest size of a cached record in bytes; a larger record would take too much room.
    private static let largest = 16 * 1024
    private var new: [RecordID: Entry] = [:]
    private var old: [RecordID: Entry] = [:]
    private var newBytes = 0

    /// The number of bytes of all cached records together.
    package var bytes: Int { (Array(new.values) + Array(old.values)).reduce(0) { $0 + $1.bytes.count } }

    /// Returns the record that is stored in these bytes.
    package mutating func record(_ id: RecordID, _ bytes: UnsafeBufferPointer<UInt8>) -> Record {
        if let known = new[id] ?? old[id], known.bytes.count == bytes.count,
            memcmp(known.bytes, bytes.baseAddress!, bytes.count) == 0
        {
            return known.record
        }
        let record = RecordCodec.decode(bytes, id)
        if record != .unreadable { keep(Entry(bytes: Array(bytes), record: record), id) }
        return record
    }

    /// Returns the stored form of a record.
    package mutating func encode(_ record: Record, _ id: RecordID) -> [UInt8] {
        let bytes = RecordCodec.encode(record)
        keep(Entry(bytes: bytes, record: record), id)
        return bytes
    }

    private mutating func keep(_ entry: Entry, _ id: RecordID) {
        guard entry.bytes.count <= Self.largest else { return }
        // A record that was written again takes no more room than its latest form.
        newBytes += entry.bytes.count - (new[id]?.bytes.count ?? 0)
        if newBytes > Self.capacity {
            old = new
            new = [:]
            newBytes = entry.bytes.count
        }
        new[id] = entry
    }
}
