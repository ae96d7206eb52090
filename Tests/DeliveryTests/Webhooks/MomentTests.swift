import Testing

@testable import Delivery

/// Moments as operators write them (RFC 3339).
@Suite struct MomentTests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2026-11-23T08:30:00Z", 1_795_422_600_000),
            ("2026-11-23T09:30:00.5+01:00", 1_795_422_600_500), ("2026-11-23t08:30:00.123456z", 1_795_422_600_123),
            ("2026-11-22 23:30:00-09:00", 1_795_422_600_000),
        ] as [(String, Int64)])
    func aMomentIsRead(text: String, expected: Int64) { #expect(moment(text) == expected) }

    @Test(arguments: [
        "", "2026-11-23", "2026-11-23T08:30:00", "2026-13-23T08:30:00Z", "2026-11-23T08:30Z", "2026-11-23T08:30:00Zx",
        "2026-11-23T08:30:00.Z", "2026-11-23T08:30:00+1:00", "+026-11-23T08:30:00Z", "2026-11-23T08:30:00٣Z",
    ])
    func whatIsNoneIsRefused(text: String) { #expect(moment(text) == nil) }

    @Test func whatIsWrittenIsReadAgain() {
        for time in [0, 1_795_422_600_123, 253_402_300_799_999] as [Int64] { #expect(moment(timestamp(time)) == time) }
    }
}
