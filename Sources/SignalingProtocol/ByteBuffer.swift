/// Bytes that are put together piece by piece. A value like an array of bytes, which it does not grow by a generic function for
/// each piece: records, events and commands of a store are hundreds of pieces of a few bytes (docs/performance.md).
package struct ByteBuffer {
    private final class Storage {
        let start: UnsafeMutablePointer<UInt8>

        init(_ capacity: Int) { start = .allocate(capacity: capacity) }

        deinit { start.deallocate() }
    }

    private var storage: Storage
    private var capacity: Int
    package private(set) var count = 0

    /// `capacity`: how many bytes there is room for before it has to grow.
    package init(capacity: Int = 512) {
        self.capacity = max(64, capacity)
        storage = Storage(self.capacity)
    }

    package var bytes: [UInt8] { withUnsafeBytes(Array.init) }

    package func withUnsafeBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withExtendedLifetime(storage) { body(UnsafeBufferPointer(start: storage.start, count: count)) }
    }

    /// Makes room for `length` bytes, which `write` writes, all of them.
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

    /// Appends a number in decimal digits.
    package mutating func append(digitsOf number: UInt64) {
        guard number > 9 else { return append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number)) }
        extend(by: number.decimalLength) { digits in
            // From the last one to the first: a division by ten is a multiplication, one by a variable is not.
            var place = digits + number.decimalLength
            var rest = number
            repeat {
                place -= 1
                place.pointee = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
        }
    }
}

extension UInt64 {
    /// How many decimal digits it has.
    package var decimalLength: Int {
        guard self > 9 else { return 1 }
        // log10(2) is 1,233 / 4,096, near enough for 64 bits; what is too small by one is seen in the power of ten.
        let estimate = ((64 - leadingZeroBitCount) * 1233) >> 12
        return self < Self.powersOfTen[estimate] ? estimate : estimate + 1
    }

    private static let powersOfTen: [UInt64] = (0..<20).map { exponent in
        (0..<exponent).reduce(1) { power, _ in power * 10 }
    }
}
