import CallCore
import Glibc

/// Records as they were read or written last: one that has not changed since is not decoded again. What is equal byte by byte is
/// the same record, whatever has happened meanwhile.
package struct RecordCache {
    package init() {}

    /// A class: entries are large, and move.
    private final class Entry {
        let bytes: [UInt8]
        let record: Record

        init(bytes: [UInt8], record: Record) {
            self.bytes = bytes
            self.record = record
        }
    }

    /// When the new ones have so many bytes, the old ones are forgotten. In memory a call takes some three times as much again.
    package static let capacity = 1024 * 1024
    /// A larger record is not worth its room.
    private static let largest = 16 * 1024
    private var new: [RecordID: Entry] = [:]
    private var old: [RecordID: Entry] = [:]
    private var newBytes = 0

    /// Of all records together.
    package var bytes: Int { (Array(new.values) + Array(old.values)).reduce(0) { $0 + $1.bytes.count } }

    /// The record that is stored in these bytes.
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

    /// The bytes as which a record is stored.
    package mutating func encode(_ record: Record, _ id: RecordID) -> [UInt8] {
        let bytes = RecordCodec.encode(record)
        keep(Entry(bytes: bytes, record: record), id)
        return bytes
    }

    private mutating func keep(_ entry: Entry, _ id: RecordID) {
        guard entry.bytes.count <= Self.largest else { return }
        newBytes += entry.bytes.count
        if newBytes > Self.capacity {
            old = new
            new = [:]
            newBytes = entry.bytes.count
        }
        new[id] = entry
    }
}
