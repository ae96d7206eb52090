import BellwireClient
import Dispatch
import Foundation
import SignalingProtocol
import Synchronization
import Testing

@testable import ZIMCompat

/// Sendable: the mark never changes, and is only an address.
private struct MainMark: @unchecked Sendable {
    let key = DispatchSpecificKey<Bool>()
}

private let mainMark = MainMark()

/// The lines that an app was told, in order.
final class Log: ZIMEventHandler, Sendable {
    private struct State {
        var lines: [String] = []
        var isElsewhere = false
    }

    private let state = Mutex(State())

    var lines: [String] { state.withLock(\.lines) }
    /// Whether a line was told outside the main queue.
    var wasToldElsewhere: Bool { state.withLock(\.isElsewhere) }

    func add(_ line: String) {
        let isMain = DispatchQueue.getSpecific(key: mainMark.key) ?? false
        state.withLock { state in
            state.lines.append(line)
            if !isMain { state.isElsewhere = true }
        }
    }

    /// Waits until `line` is there.
    func wait(for line: String, _ place: SourceLocation = #_sourceLocation) async {
        await eventually("\(line) among \(lines)", place) { self.lines.contains(line) }
    }

    func zim(
        _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
        extendedData: [AnyHashable: Any]
    ) { add("\(state) \(event)") }
    func zim(_ zim: ZIM, errorInfo: ZIMError) { add("error \(errorInfo.code.rawValue)") }
    func zim(_ zim: ZIM, tokenWillExpire second: UInt32) { add("tokenWillExpire \(second)") }
    func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo) { add("profile \(info.baseInfo.userName)") }
    func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String) {
        add("created")
    }
    func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {
        add("received from \(info.inviter)")
    }
    func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String) {
        add("cancelled")
    }
    func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) { add("timeout") }
    func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {
        add("ended by \(info.operatedUserID)")
    }
    func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {
        add("states " + info.callUserList.map { "\($0.userID):\($0.state)" }.joined(separator: " "))
    }
}

/// Waits until the condition holds; fails after 30 s.
func eventually(
    _ what: @autoclosure () -> String, _ place: SourceLocation, _ condition: () -> Bool
) async {
    let end = ContinuousClock.now + .seconds(30)
    while !condition() {
        guard ContinuousClock.now < end else {
            Issue.record("not within 30 s: \(what())", sourceLocation: place)
            return
        }
        try? await Task.sleep(for: .milliseconds(2))
    }
}

/// An app of alice with a service of its own.
final class App: Sendable {
    let service = FakeService()
    let log = Log()
    let zim: ZIM

    init(requestTime: Duration = .seconds(10), tokenProvider: (@Sendable (String) async throws -> String)? = nil) {
        DispatchQueue.main.setSpecific(key: mainMark.key, value: true)
        ZIM.shared()?.destroy()
        var configuration = BellwireConfiguration(broker: "mqtt://127.0.0.1:1")
        configuration.device = "phone"
        configuration.tokenProvider = tokenProvider
        ZIM.configure(configuration, transport: service, requestTime: requestTime)
        zim = ZIM.create(with: ZIMAppConfig())!
        zim.setEventHandler(log)
    }

    deinit { zim.destroy() }

    func login(_ user: String = "alice", name: String = "", token: String = "") {
        let info = ZIMUserInfo()
        (info.userID, info.userName) = (user, name)
        let log = log
        zim.login(with: info, token: token) { log.add("login \($0.code.rawValue)") }
    }

    /// Logs in; returns the number of lines that the login told.
    func online(_ user: String = "alice") async -> Int {
        login(user)
        await log.wait(for: "login 0")
        return log.lines.count
    }

    func told(since count: Int) -> [String] { Array(log.lines.dropFirst(count)) }
}
