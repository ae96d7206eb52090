import DropInProbe
import Foundation
import ZIMCompat

/// The demo with standard input for its buttons.
final class DemoApp {
    static let shared = DemoApp()

    var commands: [String: (Probe.Command) -> Void] {
        ["start": start, "call": call, "accept": accept, "reject": reject, "end": end]
    }

    func start(_ command: Probe.Command) {
        ZIM.configure(BellwireConfiguration(broker: command.text("broker")))
        ZIMService.shared.initWithAppID(1_234_567, appSign: "sign")
        ZIMService.shared.delegate = CallManager.shared
        CallManager.shared.show = { what, details in probe.tell(what, details) }
        ZIMService.shared.connectUser(userID: command.text("user"), userName: command.text("name"), token: nil) {
            code, message in
            probe.tell("login", ["code": code, "message": message])
        }
    }

    func call(_ command: Probe.Command) {
        CallManager.shared.sendVideoCallInvitation(command.text("user")) { code, requestID in
            probe.tell("call", ["code": code, "callID": requestID ?? ""])
        }
    }

    func accept(_ command: Probe.Command) { CallManager.shared.acceptCallInvitation(requestID: command.text("callID")) }

    func reject(_ command: Probe.Command) {
        CallManager.shared.rejectCallInvitation(requestID: command.text("callID"))
    }

    func end(_ command: Probe.Command) { CallManager.shared.endCall(command.text("callID")) }
}
