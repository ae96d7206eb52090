import CallCore
import Delivery
import HTTPSending
import SignalingProtocol
import Support

/// The examination of the settings of webhooks, pushes and media servers: whether the files can be used, endpoints
/// be reached, and whether media servers and providers of pushes take this deployment's keys. With `--deliver false`,
/// only the files are examined: other processes reach the servers.
struct DeliveryExamination {
    private enum Bounds {
        /// The bound on a request to an endpoint or a media server, in milliseconds.
        static let request: Int64 = 10_000
        /// The bound on the requests to a provider, in milliseconds.
        static let provider: Int64 = 30_000
    }

    private static let command = "bellwire doctor"

    let arguments: Arguments
    /// Whether servers are asked, or the files examined alone.
    let reachesServers: Bool

    func checks() -> [Check] {
        section("webhooks", webhooks) + section("push", pushes) + section("media", media)
    }

    /// Returns the checks of a settings file; none without the file.
    private func section(_ option: String, _ checks: (String) throws -> [Check]) -> [Check] {
        do {
            guard let file = try arguments.file(option) else { return [] }
            let reached = try checks(file)
            return [.ok(option, "\(file) can be used")] + reached
        } catch {
            return [.fail(option, "\(error)", mend: "correct the file of --\(option)")]
        }
    }

    /// Whether the process with this settings file delivers. The objects of a settings file may differ in that.
    private func delivers(_ option: String) throws(UsageError) -> Bool {
        try DeliveryOptions.delivers(arguments, besides: option)
    }

    // MARK: Webhooks and media servers

    /// A HEAD request changes nothing at an endpoint. Any answer shows that events would arrive.
    private func webhooks(_ file: String) throws -> [Check] {
        let settings = try WebhookDelivery.settings(file, Self.command)
        guard reachesServers, try delivers("webhooks") else { return [] }
        let sender = try DeliveryPlace.sender(
            trusting: settings.certificateAuthorityFile, flag: "--webhooks", file, command: Self.command)
        defer { sender.stop() }
        let requests = settings.endpoints.enumerated().map { place, endpoint in
            HTTPRequest(
                id: UInt64(place), method: .head, url: endpoint.url.text,
                allowed: AddressRules(allowedNetworks: endpoint.allowedNetworks.compactMap { Network($0) }))
        }
        let mend = "start the endpoint, and check its url, its certificate and allowedNetworks (docs/webhooks.md)"
        return reached(requests, by: sender, settings.endpoints.map { "webhook-\($0.name)" }, mend: mend)
    }

    private func media(_ file: String) throws -> [Check] {
        let settings = try MediaDelivery.settings(file, Self.command)
        guard reachesServers, try delivers("media") else { return [] }
        let sender = try DeliveryPlace.sender(
            trusting: settings.certificateAuthorityFile, flag: "--media", file, command: Self.command)
        defer { sender.stop() }
        let now = WallTime.now
        var refused: [Check] = []
        var asked: [(name: String, request: HTTPRequest)] = []
        for (place, server) in settings.servers.enumerated() where server.apiURL != nil {
            if let request = server.examination(UInt64(place), at: now) {
                asked.append(("media-\(server.name)", request))
            } else {
                let mend = "write a line KEY: SECRET into keyFile (docs/media.md)"
                refused.append(.fail("media-\(server.name)", "no token can be made with the key", mend: mend))
            }
        }
        let mend = """
            start the media server, and check its apiURL, its certificate and the pair in keyFile (docs/media.md)
            """
        return refused
            + reached(
                asked.map(\.request), by: sender, asked.map(\.name), mend: mend, right: "the server takes the key",
                isRight: MediaServer.takesKey)
    }

    /// `isRight`: whether a response is that of the server that the settings mean.
    private func reached(
        _ requests: [HTTPRequest], by sender: HTTPSender, _ names: [String], mend: String, right: String? = nil,
        isRight: (HTTPAnswer.Response) -> Bool = { _ in true }
    ) -> [Check] {
        let answers = sender.answers(to: requests, before: SystemClock.boot.milliseconds + Bounds.request)
        return zip(names, requests).map { name, request in
            switch answers[request.id]?.outcome {
            case .answered(let response) where isRight(response):
                .ok(name, right ?? "the server answers with status \(response.status)")
            case .answered(let response):
                .fail(name, "the server answers with status \(response.status)", mend: mend)
            case .failed(let reason, _), .notTried(let reason): .fail(name, reason, mend: mend)
            case .notHandedOver, nil: .fail(name, "no answer within 10 s", mend: mend)
            }
        }
    }

    // MARK: Pushes

    private func pushes(_ file: String) throws -> [Check] {
        let settings = try PushDelivery.settings(file, Self.command)
        guard reachesServers, try delivers("push") else { return [] }
        let sender = try PushDelivery.sender(settings, file, Self.command)
        defer { sender.stop() }
        let providers = PushProviders(settings)
        var number: UInt64 = 0
        return try settings.apps.sorted { $0.key.string < $1.key.string }.flatMap { name, app in
            try [PushPlatform.apns, .fcm, .webPush].filter(app.platforms.contains).map { platform in
                number += 1
                let check = "push-\(name)-\(platform.rawValue)"
                guard platform != .webPush else { return .ok(check, "the key for Web Push can be used") }
                let end = SystemClock.boot.milliseconds + Bounds.provider
                let single = SinglePush(providers: providers, sender: sender, end: end) { WallTime.now.milliseconds }
                return try PushProbe(name, platform, single).check(named: check, number: number)
            }
        }
    }
}

/// A push of kind `test` to a device token that no device has: the provider checks the credentials of the deployment
/// before the token.
private struct PushProbe {
    /// Reasons by which APNs refuses the app and not the device token.
    private static let appReasons = ["BadTopic", "MissingTopic", "TopicDisallowed"]
    private static let mend =
        "check the keys and the app in the file of --push, and the way to the provider (docs/push.md)"

    let push: OutgoingPush
    let single: SinglePush

    init(_ app: AppName, _ platform: PushPlatform, _ single: SinglePush) {
        let device = DeviceAddress(userID: UserID("doctor")!, deviceID: DeviceID("doctor")!)
        let key = PushRegistration.Key(device, app, platform)
        let token = String(repeating: "0", count: 64)
        let registration = PushRegistration(key, target: .token(token), digest: "", since: 0)
        push = OutgoingPush(registration, PushContent(testAt: WallTime.now.milliseconds), invitation: 0)
        self.single = single
    }

    func check(named name: String, number: UInt64) throws -> Check {
        switch try single.send(push, number: number) {
        case .answered(let verdict) where takesCredentials(verdict):
            return .ok(name, "the provider takes the credentials")
        case .answered(let verdict):
            return .fail(name, "the provider answers: \(Self.text(of: verdict))", mend: Self.mend)
        case .refused(let reason), .failed(let reason): return .fail(name, reason, mend: Self.mend)
        }
    }

    private func takesCredentials(_ verdict: PushVerdict) -> Bool {
        guard let status = verdict.status, status < 500, status != 429 else { return false }
        let reason = verdict.reason ?? ""
        // FCM answers so for a token of another app: the credentials are good.
        let isOfOtherSender = reason.contains("SENDER_ID_MISMATCH")
        return (isOfOtherSender || ![401, 403].contains(status)) && !Self.appReasons.contains(where: reason.contains)
    }

    private static func text(of verdict: PushVerdict) -> String {
        [verdict.status.map { "status \($0)" }, verdict.reason].compactMap(\.self).joined(separator: ", ")
    }
}
