import DropInProbe
import Foundation
import ZIMCompat

/// Calls each method of the SDK as a command says, and tells the result of the callback.
final class ZIMApp: NSObject {
    static let shared = ZIMApp()
    var zim: ZIM?

    var commands: [String: (Probe.Command) -> Void] {
        [
            "configure": configure, "create": create, "properties": properties, "destroy": destroy, "login": login,
            "logout": logout, "renewToken": renewToken, "uploadLog": uploadLog, "invite": invite, "cancel": cancel,
            "accept": accept, "reject": reject, "add": add, "join": join, "quit": quit, "end": end, "calls": calls,
            "users": users, "push": push, "rename": rename, "avatar": avatar, "extend": extend,
        ]
    }

    // MARK: The instance

    func configure(_ command: Probe.Command) {
        var configuration = BellwireConfiguration(broker: command.text("broker"))
        configuration.device = command["device"] as? String
        configuration.topicRoot = command["topicRoot"] as? String ?? configuration.topicRoot
        if let tokens = command["tokens"] as? [String] {
            let given = Tokens(tokens)
            configuration.tokenProvider = { _ in given.next() }
        }
        ZIM.configure(configuration)
    }

    func create(_ command: Probe.Command) {
        let config = ZIMAppConfig()
        config.appID = 1
        config.appSign = "sign"
        zim = ZIM.create(with: config)
        zim?.setEventHandler(self)
    }

    func properties(_ command: Probe.Command) {
        probe.tell(
            "properties", ["created": zim != nil, "shared": ZIM.shared() === zim, "version": ZIM.getVersion()])
    }

    func destroy(_ command: Probe.Command) {
        zim?.destroy()
        zim = nil
    }

    func login(_ command: Probe.Command) {
        let done: ZIMLoggedInCallback = { error in probe.tell("login", fields(error)) }
        if command.flag("plain") {
            let config = ZIMLoginConfig()
            config.userName = command.text("name")
            config.token = command.text("token")
            zim?.login(with: command.text("user"), config: config, callback: done)
        } else {
            let user = ZIMUserInfo()
            user.userID = command.text("user")
            user.userName = command.text("name")
            user.userAvatarUrl = command.text("avatar")
            zim?.login(with: user, token: command.text("token"), callback: done)
        }
    }

    func logout(_ command: Probe.Command) { zim?.logout() }

    func renewToken(_ command: Probe.Command) {
        zim?.renewToken(command.text("token")) { token, error in
            probe.tell("renewToken", ["token": token] + fields(error))
        }
    }

    func uploadLog(_ command: Probe.Command) {
        zim?.uploadLog(with: { error in probe.tell("uploadLog", fields(error)) })
    }

    /// Does with a token as the app's delegates of UIKit and PushKit do.
    func push(_ command: Probe.Command) {
        ZPNs.shared().registerAPNs()
        let bytes = Array(command.text("token").utf8)
        let token = Data(
            stride(from: 0, to: bytes.count, by: 2).map {
                UInt8(String(decoding: bytes[$0...$0 + 1], as: UTF8.self), radix: 16)!
            })
        if command.flag("voip") {
            ZPNs.shared().setVoipToken(token, isProduct: !command.flag("sandbox"))
        } else {
            ZPNs.shared().setDeviceToken(token, isProduct: !command.flag("sandbox"))
        }
    }

    // MARK: Users

    func users(_ command: Probe.Command) {
        let config = ZIMUsersInfoQueryConfig()
        config.isQueryFromServer = true
        zim?.queryUsersInfo(by: command.texts("users"), config: config) { users, errors, error in
            probe.tell("users", ["users": users.map(fields), "errors": fields(errors)] + fields(error))
        }
    }

    func rename(_ command: Probe.Command) {
        zim?.updateUserName(command.text("name")) { name, error in
            probe.tell("rename", ["name": name] + fields(error))
        }
    }

    func avatar(_ command: Probe.Command) {
        zim?.updateUserAvatarUrl(command.text("avatar")) { avatar, error in
            probe.tell("avatar", ["avatar": avatar] + fields(error))
        }
    }

    func extend(_ command: Probe.Command) {
        zim?.updateUserExtendedData(command.text("extendedData")) { extendedData, error in
            probe.tell("extend", ["extendedData": extendedData] + fields(error))
        }
    }
}
