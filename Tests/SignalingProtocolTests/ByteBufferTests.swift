import Testing

@testable import SignalingProtocol

@Suite struct ByteBufferTests {
    @Test func aCopyGoesItsOwnWay() {
        var one = ByteBuffer(capacity: 64)
        one.append("abc")
        var other = one
        other.append("d")
        one.append("e")
        #expect(String(decoding: one.bytes, as: UTF8.self) == "abce")
        #expect(String(decoding: other.bytes, as: UTF8.self) == "abcd")
    }

    @Test func itGrowsAsFarAsIsNeeded() {
        var buffer = ByteBuffer(capacity: 0)
        var expected: [UInt8] = []
        for round in 0..<200 {
            let piece = [UInt8](repeating: UInt8(round), count: round * round % 300)
            buffer.append(piece)
            buffer.append(UInt8(ascii: "/"))
            expected += piece + [UInt8(ascii: "/")]
        }
        #expect(buffer.bytes == expected && buffer.count == expected.count)
    }

    @Test func nothingIsWrittenOfWhatIsEmpty() {
        var buffer = ByteBuffer()
        buffer.append("" as StaticString)
        buffer.append("" as String)
        buffer.append([])
        buffer.append(UnsafeBufferPointer(start: nil, count: 0))
        #expect(buffer.bytes.isEmpty)
    }

    /// The numbers at each power of ten and of two, and their neighbours.
    @Test func numbersHaveAsManyDigitsAsAreWritten() {
        var numbers: [UInt64] = [0, .max]
        var power: UInt64 = 1
        for _ in 0..<20 {
            numbers += [power - 1, power, power + 1]
            let (next, isOver) = power.multipliedReportingOverflow(by: 10)
            if isOver { break }
            power = next
        }
        for bit in 1..<64 { numbers += [(1 << UInt64(bit)) - 1, 1 << UInt64(bit)] }
        for number in numbers {
            var buffer = ByteBuffer()
            buffer.append(digitsOf: number)
            #expect(String(decoding: buffer.bytes, as: UTF8.self) == String(number))
            #expect(number.decimalLength == String(number).utf8.count)
        }
    }
}
