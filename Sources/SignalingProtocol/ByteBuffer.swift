/// A growing buffer of bytes. The type is a value like `[UInt8]`, but appends without a call of a generic function for
/// each piece: records, events and store commands consist of hundreds of pieces of a few bytes (docs/performance.md).
package struct ByteBuffer {
    private final class Storage {
        let start: UnsafeMutablePointer<UInt8>

        init(_ capacity: Int) { start = .allocate(capacity: capacity) }

        deinit { start.deallocate() }
    }

    private var storage: Storage
    private var capacity: Int
    package private(set) var count = 0

    /// `capacity`: the number of bytes that fit before the buffer grows; at least 64.
    package init(capacity: Int = 512) {
        self.capacity = max(64, capacity)
        storage = Storage(self.capacity)
    }

    package var bytes: [UInt8] { withUnsafeBytes(Array.init) }

    package func withUnsafeBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withExtendedLifetime(storage) { body(UnsafeBufferPointer(start: storage.start, count: count)) }
    }

    /// Makes room for `length` bytes. The closure `write` must initialize all `length` bytes.
    @inline(__always)
    mutating func extend(by length: Int, _ write: (UnsafeMutablePointer<UInt8>) -> Void) {
        if length > capacity - count || !isKnownUniquelyReferenced(&storage) { grow(by: length) }
        write(storage.start + count)
        count += length
    }

    @inline(never)
    private mutating func grow(by length: Int) {
        capacity = max(count + length, 2 * count, capacity)
        let larger = Storage(capacity)
        withExtendedLifetime(storage) { larger.start.initialize(from: storage.start, count: count) }
        storage = larger
    }

    package mutating func append(_ byte: UInt8) { extend(by: 1) { $0.pointee = byte } }

    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress else { return }
        extend(by: bytes.count) { $0.initialize(from: start, count: bytes.count) }
    }

    package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { append($0) } }

    package mutating func append(_ text: StaticString) {
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append($0) }
    }

    /// Appends `number` in decimal digits.
    package mutating func append(digitsOf number: UInt64) {
        let zero = UInt8(ascii: "0")
        guard number > 9 else { return append(zero + UInt8(truncatingIfNeeded: number)) }
        let length = number.decimalLength
        extend(by: length) { digits in
            // The loop writes from the last digits to the first, four digits per division of 64 bits.
            var place = digits + length
            func write(pair: UInt32) {
                place -= 2
                place[0] = zero &+ UInt8(truncatingIfNeeded: pair / 10)
                place[1] = zero &+ UInt8(truncatingIfNeeded: pair % 10)
            }
            var rest = number
            while rest > 9999 {
                let last = UInt32(truncatingIfNeeded: rest % 10_000)
                rest /= 10_000
                write(pair: last % 100)
                write(pair: last / 100)
            }
            var first = UInt32(truncatingIfNeeded: rest)
            if first > 99 {
                write(pair: first % 100)
                first /= 100
            }
            if first > 9 { write(pair: first) } else { digits.pointee = zero &+ UInt8(truncatingIfNeeded: first) }
        }
    }
}

extension UInt64 {
    /// The number of decimal digits of this value.
    package var decimalLength: Int {
        var rest = self
        var length = 1
        while rest > 9999 {
            rest /= 10_000
            length += 4
        }
        return length + (rest > 9 ? 1 : 0) + (rest > 99 ? 1 : 0) + (rest > 999 ? 1 : 0)
    }
}
