import CallCore

/// The numbers that a store may give back. What lies beyond them was never written by a coordinator; whoever counts
/// with it would leave the range of an integer.
package enum StoredNumber {
    /// Milliseconds since the Unix epoch, or seconds: up to what a double holds exactly, as Redis's scores are.
    package static let times: ClosedRange<Int64> = 0...1 << 53
    /// Between two such times.
    package static let differences: ClosedRange<Int64> = -times.upperBound...times.upperBound
    /// Revisions, and durations in seconds or milliseconds.
    package static let counts: ClosedRange<Int64> = 0...Int64(Int32.max)

    /// Nil for what is no such number. Not generic: a store in another module would call it unspecialised, for each number that it reads.
    package static func time(_ digits: UnsafeBufferPointer<UInt8>) -> Milliseconds? {
        // Sixteen digits fit, and more are out of range.
        guard (1...16).contains(digits.count) else { return nil }
        var number: Milliseconds = 0
        for byte in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            number = number * 10 + Milliseconds(byte - UInt8(ascii: "0"))
        }
        return times.contains(number) ? number : nil
    }

    package static func time(_ digits: [UInt8]) -> Milliseconds? { digits.withUnsafeBufferPointer { time($0) } }

    /// A score, which may have a fraction and may be infinite: the nearest time.
    package static func time(ofScore digits: UnsafeBufferPointer<UInt8>) -> Milliseconds {
        guard let score = Double(String(decoding: digits, as: UTF8.self)), score > 0 else { return 0 }
        return Milliseconds(min(score, Double(times.upperBound)))
    }
}
