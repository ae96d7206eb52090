import Testing

@testable import Delivery

@Suite struct EventPatternsTests {
    @Test(arguments: [
        (["*"], WebhookEventType.allCases),
        (["call.*"], [.callCreated, .callEnded, .callUserStateChanged]),
        (["message.*"], [.messageSent, .messageDelivered, .messageExpired]),
        (["call.ended", "message.sent"], [.callEnded, .messageSent]),
        (["call.ended", "call.ended"], [.callEnded]),
    ])
    func aPatternMatchesItsTypes(_ patterns: [String], _ types: [WebhookEventType]) throws {
        let patterns = try #require(EventPatterns(patterns))
        #expect(WebhookEventType.allCases.filter(patterns.matches) == types)
        #expect(EventPatterns(stored: patterns.stored) == patterns)
    }

    @Test(arguments: [[], ["call"], ["call."], ["*.ended"], ["Call.*"], ["call.*", "push.*"], [""], ["call.ended "]])
    func whatIsNotKnownIsNoPattern(_ patterns: [String]) { #expect(EventPatterns(patterns) == nil) }

    @Test func aPatternOfALaterVersionMatchesNothingAndIsKept() {
        let patterns = EventPatterns(stored: "push.* call.moved c* call.ended")
        #expect(WebhookEventType.allCases.filter(patterns.matches) == [.callEnded])
        #expect(patterns.stored == "push.* call.moved c* call.ended")
        #expect(!EventPatterns(stored: "").matches(.callCreated))
    }
}
