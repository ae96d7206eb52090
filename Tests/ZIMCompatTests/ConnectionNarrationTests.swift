import BellwireClient
import SignalingProtocol
import Testing

@testable import ZIMCompat

@Suite struct ConnectionNarrationTests {
    @Test func aLostConnectionIsToldOnceHoweverOftenAttemptsFail() {
        var scene = Scene(alice)
        #expect(words(scene.stands(.connecting)) == ["connection connecting activeLogin"])
        #expect(words(scene.stands(.connected)) == ["connection connected success"])
        #expect(words(scene.stands(.reconnecting(reason: "a"))) == ["connection reconnecting loginInterrupted"])
        #expect(words(scene.stands(.reconnecting(reason: "b"))) == [])
        #expect(words(scene.stands(.connected)) == ["connection connected success"])
    }

    @Test func theEndsOfALoginAreTold() {
        for (state, event) in [
            (BellwireConnectionState.disconnected, "success"), (.takenOver, "kickedOut"),
            (.tokenExpired, "tokenExpired"),
        ] {
            var scene = Scene(alice)
            _ = scene.stands(.connected)
            #expect(words(scene.stands(state)) == ["connection disconnected \(event)"])
        }
    }

    @Test func aTokenThatIsRefusedLaterAndIsTheLastOneCountsAsExpired() {
        var last = Scene(alice, hasLastToken: true)
        _ = last.stands(.connected)
        #expect(words(last.stands(.refused(reason: "no"))) == ["connection disconnected tokenExpired"])
        var others = Scene(alice)
        _ = others.stands(.connected)
        #expect(words(others.stands(.refused(reason: "no"))) == ["error 6000103"])
        _ = others.stands(.connected)
        others.narration.hasEndedToken = true
        #expect(words(others.stands(.refused(reason: "no"))) == ["error 6000106"])
    }

    @Test func aLoginThatFailsEndsDisconnected() {
        var scene = Scene(alice)
        _ = scene.stands(.connecting)
        #expect(words(scene.stands(.refused(reason: "no"))) == [])
        #expect(words(scene.narration.loginFailed()) == ["connection disconnected loginTimeout"])
        #expect(words(scene.narration.loginFailed()) == [])
        #expect(words(scene.stands(.disconnected)) == [])
    }
}
