import Testing
import ZegoCallProtocol

@testable import ZegoCallCompat

/// The parameters of a notification.
struct ToldNotificationTests {
    @Test func numbersAreWhatAppsCastThemTo() {
        let call = ZegoCall(
            id: "c", caller: .init(id: "alice", name: "A"), callees: [.init(id: "bob", name: "B")], kind: .video)
        let invited = ToldNotification.invited(call).parameter
        #expect(invited["type"] as? Int == 2 && invited["call_type"] as? Int == 2)
        #expect(invited["caller"] as? [String: String] == ["id": "alice", "name": "A"])
        #expect(invited["callees"] as? [[String: String]] == [["id": "bob", "name": "B"]])
        let declined = ToldNotification.declined(callID: "c", callee: "bob", .busy).parameter
        #expect(declined["type"] as? Int == 2)
    }

    @Test func thePathsAreTheDocuments() {
        let all: [ToldNotification] = [
            .canceled(callID: "", caller: "", callee: ""), .accepted(callID: "", callee: ""),
            .declined(callID: "", callee: "", .declined), .ended(callID: "", by: ""), .timedOut(callID: "", user: ""),
        ]
        #expect(
            all.map(\.path) == [
                "/call/notify_call_canceled", "/call/notify_call_accept", "/call/notify_call_decline",
                "/call/notify_call_end", "/call/notify_timeout",
            ])
        #expect(Notify_Call_Invited == "/call/notify_call_invited")
    }
}
