import SignalingProtocol
import Testing

@testable import Delivery

/// How many pushes are under way to each user and host.
@Suite struct PushSlotTests {
    private var slots = PushSlots()

    private func call(_ number: Int) -> CallID { CallID("c\(number)")! }

    private func place(_ host: String, _ user: String = "bob") -> PushProvider {
        .webPush(host: host, user: UserID(user)!)
    }

    /// Returns how many of these pushes are given a place.
    private mutating func take(_ places: [PushProvider]) -> Int {
        places.enumerated().count { slots.take($1, for: call($0)) }
    }

    @Test mutating func aUserHasFewWhateverTheHostsAreCalled() {
        #expect(take((0..<50).map { place("h\($0)", "eve") }) == PushSlots.perUser)
        #expect(take([place("h0", "bob")]) == 1)
    }

    @Test mutating func aHostHasFewWhoeverNamesIt() {
        #expect(take((0..<50).map { place("h", "u\($0)") }) == PushSlots.perHost)
        #expect(take([place("other", "bob")]) == 1)
    }

    @Test mutating func allOfThemHaveTheirNumberAndOthersTheirs() {
        #expect(take((0..<150).map { place("h\($0)", "u\($0)") }) == PushSlots.perProvider)
        #expect(take((0..<150).map { _ in .named("apns") }) == PushSlots.perProvider)
        #expect(take([.named("fcm")]) == 1)
    }

    @Test mutating func whatComesBackIsForWhoCanUseIt() {
        _ = take((0..<6).map { place("h\($0)", "eve") })
        _ = take((0..<11).map { place("h", "u\($0)") })
        // Eve's sixth push waits, and so does the eleventh push at this host.
        #expect(slots.release(place("h", "u3")) == call(10))
        #expect(slots.release(place("h1", "eve")) == call(5))
        #expect(slots.release(place("h2", "eve")) == nil)
        #expect(take((0..<9).map { place("n\($0)", "eve") }) == 2)
    }
}
