/// Bytes that are appended at the end and taken from the front.
package struct ByteQueue {
    package init() {}

    /// The storage: the bytes before `start` are taken, and the bytes from `start` on are still in the queue.
    package private(set) var bytes: [UInt8] = []
    package private(set) var start = 0

    package var isEmpty: Bool { start == bytes.count }
    package var count: Int { bytes.count - start }

    package mutating func append(_ write: (inout [UInt8]) -> Void) { write(&bytes) }

    /// Reads the bytes that are not taken yet.
    package func read<Result, Failure>(
        _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withUnsafeBufferPointer { buffer throws(Failure) in
            try body(UnsafeBufferPointer(rebasing: buffer[start...]))
        }
    }

    package mutating func take(_ count: Int) {
        start += count
        if start == bytes.count {
            // A single large packet must not hold its memory for ever.
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptBytes)
            start = 0
        } else if start > Self.keptBytes, start > bytes.count / 2 {
            bytes.removeSubrange(..<start)
            start = 0
        }
    }

    private static let keptBytes = 256 * 1024
}
