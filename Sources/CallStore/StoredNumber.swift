import CallCore

/// The ranges of numbers that a store may return. No coordinator writes numbers outside these ranges, and a calculation
/// with such a number could overflow an integer.
package enum StoredNumber {
    /// Milliseconds or seconds since the Unix epoch, up to the largest integer that a double holds exactly: Redis's
    /// scores are doubles.
    package static let times: ClosedRange<Int64> = 0...1 << 53
    /// Differences between two such times.
    package static let differences: ClosedRange<Int64> = -times.upperBound...times.upperBound
    /// Revisions, and durations in seconds or milliseconds.
    package static let counts: ClosedRange<Int64> = 0...Int64(Int32.max)

    /// Returns nil for digits that are not such a number. The function is not generic, because a store in another
    /// module would call it unspecialised for each number.
    package static func time(_ digits: UnsafeBufferPointer<UInt8>) -> Milliseconds? {
        // All times have at most sixteen digits.
        guard (1...16).contains(digits.count) else { return nil }
        var number: Milliseconds = 0
        for byte in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            number = number * 10 + Milliseconds(byte - UInt8(ascii: "0"))
        }
        return times.contains(number) ? number : nil
    }

    package static func time(_ digits: [UInt8]) -> Milliseconds? { digits.withUnsafeBufferPointer { time($0) } }

    /// Returns the time nearest to a score, which may have a fraction and may be infinite.
    package static func time(ofScore digits: UnsafeBufferPointer<UInt8>) -> Milliseconds {
        guard let score = Double(String(decoding: digits, as: UTF8.self)), score > 0 else { return 0 }
        return Milliseconds(min(score, Double(times.upperBound)))
    }
}
