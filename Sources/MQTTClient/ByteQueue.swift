/// Bytes that are appended at the end and taken from the front.
struct ByteQueue {
    /// The bytes; the bytes from `start` on are not taken yet.
    private(set) var bytes: [UInt8] = []
    private(set) var start = 0

    var isEmpty: Bool { start == bytes.count }
    var count: Int { bytes.count - start }

    mutating func append(_ write: (inout [UInt8]) -> Void) { write(&bytes) }

    /// Reads the bytes that are not taken yet.
    func read<Result, Failure>(
        _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withUnsafeBufferPointer { buffer throws(Failure) in
            try body(UnsafeBufferPointer(rebasing: buffer[start...]))
        }
    }

    mutating func take(_ count: Int) {
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
