import Testing

@testable import HTTPSending

/// The order in which requests have their turn.
struct AdmissionTests {
    private typealias Host = Destination.Host
    private let first = Host(name: "first.example", port: 443)
    private let second = Host(name: "second.example", port: 443)

    private func expect(
        _ admission: inout Admission<Int>, _ expected: [Int], _ location: SourceLocation = #_sourceLocation
    ) {
        var items: [Int] = []
        while let item = admission.next() { items.append(item) }
        #expect(items == expected, sourceLocation: location)
    }

    @Test func noMoreThanTheLimitAreUnderWayToOneHost() {
        var admission = Admission<Int>(mostPerHost: 2, mostInFlight: 10, mostWaitingPerHost: 10)
        for item in 0..<5 { _ = admission.add(item, to: first) }
        expect(&admission, [0, 1])
        admission.finished(first)
        expect(&admission, [2])
        admission.finished(first)
        admission.finished(first)
        expect(&admission, [3, 4])
    }

    @Test func anotherPortIsAnotherHost() {
        var admission = Admission<Int>(mostPerHost: 1, mostInFlight: 10, mostWaitingPerHost: 10)
        _ = admission.add(0, to: Host(name: "a", port: 443))
        _ = admission.add(1, to: Host(name: "a", port: 444))
        expect(&admission, [0, 1])
    }

    @Test func hostsTakeTurnsWhenThereIsNotRoomForAll() {
        var admission = Admission<Int>(mostPerHost: 10, mostInFlight: 4, mostWaitingPerHost: 10)
        for item in 0..<6 { _ = admission.add(item, to: first) }
        for item in 10..<16 { _ = admission.add(item, to: second) }
        expect(&admission, [0, 10, 1, 11])
        #expect(admission.inFlight == 4)
    }

    @Test func aHostWithTooManyWaitingTakesNoMore() {
        var admission = Admission<Int>(mostPerHost: 1, mostInFlight: 1, mostWaitingPerHost: 2)
        let taken = [(0, first), (1, first), (2, first), (3, second)].map { admission.add($0, to: $1) }
        #expect(taken == [true, true, false, true])
    }

    @Test func thoseWhoWaitedTooLongAreTakenOutAndTheOthersGoOn() {
        var admission = Admission<Int>(mostPerHost: 1, mostInFlight: 10, mostWaitingPerHost: 10)
        for item in 0..<4 { _ = admission.add(item, to: first) }
        _ = admission.add(10, to: second)
        let started = admission.next()
        #expect(started == 0)
        let removed = admission.remove { $0 == 1 || $0 == 10 }
        #expect(removed.sorted() == [1, 10])
        expect(&admission, [])
        admission.finished(first)
        expect(&admission, [2])
        #expect(admission.waiting == [3])
    }
}
