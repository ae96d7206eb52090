@testable import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Testing
import Tokens

@testable import Delivery

/// Providers that answer when a test tells them to, and as the test says. They answer the request for an access token
/// of Google at once, unless told otherwise.
final class Providers: RequestSender {
    /// The open requests, without requests for tokens.
    private(set) var open: [HTTPRequest] = []
    /// All requests that were ever sent.
    private(set) var sent: [HTTPRequest] = []
    private var answers: [HTTPAnswer] = []
    var givesTokens = true
    let descriptor: Int32 = -1

    func send(_ request: HTTPRequest) {
        guard !request.url.hasPrefix("https://oauth.example") else {
            let body = givesTokens ? #"{"access_token":"t","expires_in":3600}"# : "{}"
            answers.append(
                HTTPAnswer(
                    id: request.id,
                    outcome: .answered(.init(status: givesTokens ? 200 : 500, retryAfter: nil, body: Array(body.utf8))),
                    took: 1))
            return
        }
        open.append(request)
        sent.append(request)
    }

    func take() -> [HTTPAnswer] {
        defer { answers = [] }
        return answers
    }

    /// Answers an open request. A nil status means: no answer comes, though the request may have arrived.
    func answer(_ status: Int?, retryAfter: Int? = nil, body: String = "", _ place: Int = 0) {
        guard open.indices.contains(place) else {
            Issue.record("nothing is open")
            return
        }
        let outcome: HTTPAnswer.Outcome =
            status.map { .answered(.init(status: $0, retryAfter: retryAfter, body: Array(body.utf8))) }
            ?? .failed(reason: "no answer", wasHandedOver: true)
        answers.append(HTTPAnswer(id: open.remove(at: place).id, outcome: outcome, took: 7))
    }

    func giveBack(_ place: Int = 0) {
        guard open.indices.contains(place) else {
            Issue.record("nothing is open")
            return
        }
        answers.append(HTTPAnswer(id: open.remove(at: place).id, outcome: .notHandedOver, took: 7))
    }

    /// The open requests in short: the kind `ring`, `stop` or `missed` where the body is readable, and the token or the
    /// path's end.
    var shown: [String] { open.map(Self.show) }

    static func show(_ request: HTTPRequest) -> String {
        let body = String(decoding: request.body, as: UTF8.self)
        let kind = ["ring", "stop", "missed"].first { kind in
            body.contains(#""kind":"\#(kind)""#) || body.contains(#"\"kind\":\"\#(kind)\""#)
        }
        let token = request.url.split(separator: "/").last.map(String.init) ?? ""
        let name =
            request.url.hasPrefix("https://fcm.example")
            ? body.components(between: #""token":""#, and: #"""#) : token
        return "\(kind ?? "hidden") \(name)"
    }
}

extension String {
    fileprivate func components(between start: String, and end: String) -> String {
        guard let place = firstRange(start) else { return "" }
        let rest = self[place...]
        return String(rest.prefix { !end.contains($0) })
    }

    private func firstRange(_ text: String) -> String.Index? {
        indices.first { self[$0...].hasPrefix(text) }.map { index($0, offsetBy: text.count) }
    }
}

final class PushClock {
    static let start: Milliseconds = 1_790_000_000_000
    var now = start
    /// The time of the boot clock.
    var boot: Int64 { now - Self.start }
    /// Called when a worker looks at the clock, as a worker does right before it reads.
    var onLook: () -> Void = {}
}

/// Calls of Alice to Bob in a store, providers, and workers, in virtual time.
final class PushRig {
    let clock = PushClock()
    let store: MemoryCallStore
    let doubtful: DoubtfulStore
    let providers = Providers()
    private(set) var pushers: [Pusher] = []
    private var machines: [CallID: CallMachine] = [:]
    private var requests = 0
    private let settings: PusherSettings

    static let app: PushApp = {
        let key = try! CryptographicKey.generate(.es256)
        return PushApp(
            apns: APNsSettings(
                key: key, keyID: "K", teamID: "T", bundleID: "com.example",
                endpoint: try! ProviderEndpoint("https://apns.example")),
            fcm: FCMSettings(
                account: ServiceAccount(
                    email: "a@example", project: "p", tokenURL: try! HTTPSURL("https://oauth.example/token"),
                    keyID: nil,
                    key: key), endpoint: try! ProviderEndpoint("https://fcm.example")),
            webPush: WebPushSettings(key: key, subject: "mailto:a@example.com"))
    }()
    static let point = Base64URL.encode(try! CryptographicKey.generate(.es256).publicPoint!)

    init(publicURL: String? = "https://ring.example", configure: (inout PusherSettings) -> Void = { _ in }) {
        let clock = clock
        store = MemoryCallStore { clock.now }
        doubtful = DoubtfulStore(store)
        var settings = PusherSettings(
            PushSettings(publicURL: publicURL, apps: [.standard: Self.app]), lease: 600_000, name: "c1",
            traceLife: 86_400_000)
        configure(&settings)
        self.settings = settings
        another()
    }

    var pusher: Pusher { pushers.last! }

    /// Starts another worker. The former workers have no more turns unless `all` is turned; their sent requests stay
    /// open.
    func another() {
        let (clock, number) = (clock, pushers.count)
        var names = 0
        pushers.append(
            Pusher(
                doubtful, settings, sender: providers,
                clock: {
                    clock.onLook(); return clock.boot
                }
            ) {
                names += 1
                return "p\(number).\(names)"
            })
        turn()
    }

    func turn(after duration: Milliseconds = 0) {
        clock.now += duration
        for _ in 0..<4 { pusher.turn(clock.boot) }
    }

    /// Lets time pass; a worker that wants a turn has the turn.
    func pass(_ duration: Milliseconds) {
        let end = clock.now + duration
        turn()
        while clock.now < end {
            clock.now = min(end, max(clock.now + 1, PushClock.start + pusher.nextTurn))
            turn()
        }
    }

    // MARK: Devices

    func register(_ device: String, _ platform: PushPlatform, of user: UserID = bob, token: String? = nil) {
        let address = DeviceAddress(userID: user, deviceID: DeviceID(device)!)
        let name = token ?? "\(device).\(platform)"
        let target: PushTarget =
            platform == .webPush
            ? .subscription(
                endpoint: name.hasPrefix("https") ? name : "https://web.example/\(name)", p256dh: Self.point,
                auth: "AAAAAAAAAAAAAAAAAAAAAA") : .token(name)
        _ = store.register(
            PushRegistration(
                PushRegistration.Key(address, .standard, platform), target: target, digest: target.identity, since: 0))
    }

    func comeOnline(_ device: String, of user: UserID = bob) {
        let address = DeviceAddress(userID: user, deviceID: DeviceID(device)!)
        _ = store.cameOnline([DeviceSession(address, id: "s")], policy: PresencePolicy())
    }

    // MARK: Calls

    func invite(_ id: String = "c", by inviter: UserID = alice, _ invitees: [UserID] = [bob]) {
        let invite = Request.Invite(invitees: invitees, mode: .advanced)
        let invitation = CallMachine.Invitation(callID: CallID(id)!, invite: invite, busy: [], isCancelled: false)
        machines[CallID(id)!] = try! CallMachine.invited(
            invitation, acting(inviter, "phone"),
            CallMachine.Invitees(profiles: [:], unregistered: [], limited: [], withheld: [], pushable: invitees),
            activeElsewhere: nil, settings: CallSettings())
        commit(id)
    }

    private func acting(_ user: UserID, _ device: String) -> CallMachine.Acting {
        requests += 1
        let address = DeviceAddress(userID: user, deviceID: DeviceID(device)!)
        return CallMachine.Acting(
            key: RequestKey(device: address, requestID: RequestID("r\(requests)")!), now: clock.now)
    }

    func commit(_ id: String, hints: Bool = true) {
        let callID = CallID(id)!
        let known = store.load([.call(callID)])[0]?.version ?? 0
        var commit = Commit(
            .call(callID), record: .call(machines[callID]!.call), expected: known, deadline: nil, expiresAt: nil)
        commit.pushes = true
        #expect(store.commit([commit]) == [.committed(version: known + 1)])
        guard hints else { return }
        pusher.committed([.call(callID)])
        turn()
    }

    func accept(_ id: String = "c", on device: String, hints: Bool = true) {
        let acting = acting(bob, device)
        try! machines[CallID(id)!]!.acceptRequested(
            Request.Accept(callID: CallID(id)!), acting, activeElsewhere: nil)
        commit(id, hints: hints)
    }

    func cancel(_ id: String = "c", hints: Bool = true) {
        let acting = acting(alice, "phone")
        _ = try! machines[CallID(id)!]!.cancelRequested(Request.Cancel(callID: CallID(id)!), acting)
        commit(id, hints: hints)
    }

    func expire(_ id: String = "c") {
        machines[CallID(id)!]!.deadlineReached(
            CallMachine.DeadlineContext(now: clock.now, heard: [:], listeningSince: 0, isInviterOnline: true))
        commit(id)
    }

    func ack(_ id: String = "c", by device: String) {
        let address = DeviceAddress(userID: bob, deviceID: DeviceID(device)!)
        let revision = machines[CallID(id)!]!.call.revision
        store.note([.ack(CallID(id)!, DeviceAck(device: address, session: "s", revision: revision))])
    }

    // MARK: Results

    /// The states of the pushes, each in the form `phone apns ring:sent`.
    func states(_ id: String = "c") -> [String] {
        (store.load([.call(CallID(id)!)])[0]?.pushes ?? []).map { state in
            let phases = PushKind.allCases.compactMap { kind in state[kind].map { "\(kind):\($0)" } }
            return (["\(state.key.device.deviceID)", "\(state.key.platform)"] + phases).joined(separator: " ")
        }
    }

    /// The pushes in the call's timeline, each in the form `ring apns sent 200`.
    func told(_ id: String = "c") -> [String] {
        store.timeline(of: CallID(id)!).entries.compactMap { entry in
            guard case .push(let push) = entry.step else { return nil }
            let details = [push.status.map { "\($0)" }, push.reason].compactMap(\.self)
            let words = ["\(push.kind)", "\(push.platform)", "\(push.outcome)"] + details
            return words.joined(separator: " ")
        }
    }

    func count(_ platform: PushPlatform, _ kind: PushKind, _ outcome: PushOutcome) -> Int {
        pusher.report.counts.outcomes[PushCounts.Label(platform, kind, outcome)] ?? 0
    }

    /// The worker that holds the call at the store; nil when no worker holds the call.
    func holder(_ id: String = "c") -> WorkerID? { store.contents.holderOfPushes(CallID(id)!, now: clock.now) }

    var backlog: Int { store.countPushes().calls }
}
