import Testing

@testable import BellwireClientCore

/// Whether another connection has this device's id, at brokers that do not say so.
@Suite struct RivalWatchTests {
    private let closed = BellwireTransportError(.lost(isClean: true), "the broker closed the connection")

    private func expect(
        _ expected: Bool, _ watch: inout RivalWatch, _ error: BellwireTransportError, after lasted: Int64,
        isUnexplained: Bool
    ) {
        let isTakenOver = watch.isTakenOver(by: error, after: lasted, isUnexplained: isUnexplained)
        #expect(isTakenOver == expected)
    }

    @Test func threeShortConnectionsThatEndWithoutAWordAreARivals() {
        var watch = RivalWatch()
        expect(false, &watch, closed, after: 100, isUnexplained: true)
        expect(false, &watch, closed, after: 100, isUnexplained: true)
        expect(true, &watch, closed, after: 100, isUnexplained: true)
    }

    /// The attempts fail like those at a proxy whose broker is about to start; the ends come from a service that has
    /// said why.
    @Test func attemptsThatCameToNothingAndEndsThatWereExplainedAreNot() {
        var watch = RivalWatch()
        for _ in 0..<10 {
            expect(false, &watch, closed, after: 10, isUnexplained: false)
            let ended = BellwireTransportError(.ended, "Administrative action")
            expect(false, &watch, ended, after: 10, isUnexplained: false)
        }
    }

    @Test func aConnectionThatHeldOrBrokeBeginsTheCountAnew() {
        var watch = RivalWatch()
        for _ in 0..<10 {
            expect(false, &watch, closed, after: 100, isUnexplained: true)
            expect(false, &watch, closed, after: 3_000, isUnexplained: true)
        }
        _ = watch.isTakenOver(by: closed, after: 100, isUnexplained: true)
        let broken = BellwireTransportError(.lost(isClean: false), "Connection reset by peer")
        expect(false, &watch, broken, after: 100, isUnexplained: true)
        expect(false, &watch, closed, after: 100, isUnexplained: true)
        expect(true, &watch, BellwireTransportError(.takenOver, ""), after: 60_000, isUnexplained: true)
    }
}
