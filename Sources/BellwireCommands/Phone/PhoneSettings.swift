import BellwireClient
import Glibc
import MQTTClient
import SignalingProtocol

/// The automatic answer of a phone to an incoming call.
enum AutoAnswer: String, CaseIterable {
    case accept, reject, busy
    /// The phone lets the call ring.
    case ignore
}

/// The command line of `bellwire call` and `bellwire listen`.
struct PhoneSettings {
    enum Role: Equatable {
        case call([UserID])
        case listen
    }

    let role: Role
    let user: UserID
    let device: DeviceID
    /// The brokers' addresses without credentials.
    let brokers: String
    /// The configuration of the client, with its broker.
    private(set) var client: SignalingClient.Configuration
    let mode: CallMode
    let media: String?
    /// The timeout of an invitation in seconds.
    let timeout: Int
    let extendedData: String?
    let notReceivedCheck: Bool
    let ifBusy: BusyPolicy
    let glare: GlarePolicy
    /// The automatic answer; nil if the user answers by keys.
    let auto: AutoAnswer?
    /// How long `auto` waits, in milliseconds.
    let answerAfter: Int64
    /// How long after its answer an advanced call is ended, in milliseconds.
    let hangUpAfter: Int64?
    let once: Bool
    let isJSON: Bool

    var commandName: String { role == .listen ? "listen" : "call" }
}

extension PhoneSettings {
    static let callCommand = Command(
        name: "call", arguments: "USER...",
        summary: """
            Calls one user or several, and shows what happens.
            Exit status: 0 answered, 2 rejected, 3 timeout, 4 busy, 5 cancelled, 1 error.
            \(keysHelp)
            """,
        options: identity + invitation + answering, positionals: 1...Limits.inviteesPerRequest)

    static let listenCommand = Command(
        name: "listen", arguments: "",
        summary: """
            Waits for calls, and answers them by keys or by --auto.
            Exit status: 0; with --once that of the call: 0 answered, 2 rejected, 3 timeout, 4 busy, 5 cancelled, 1 error.
            \(keysHelp)
            """,
        options: identity + invitation + answering + [
            Option(switch: "once", "exit after the end of the first call; the exit status tells its outcome")
        ], positionals: 0...0)

    static let keysHelp =
        "Keys: a accept, r reject, b busy, c cancel, + add a user, q quit, h hang up, x leave (as Ctrl-C)."

    private static let identity =
        [
            Option("as", "USER", "your user id; required"),
            Option("device", "DEVICE", "this device; a random one when not given"),
        ] + BrokerAccess.options + [
            Option("topic-root", "TOPIC", default: Topics.defaultRoot, "the root of all topics"),
            Option(switch: "json", "print one JSON object a line; time is in milliseconds since the start"),
        ]

    private static let invitation = [
        Option("mode", "MODE", default: "common", "common: the call ends with its answer; advanced: the call goes on"),
        Option("media", "MEDIA", "voice, video or any text"),
        Option("timeout", "DURATION", default: "60s", "how long an invitation rings: 1s to 10m"),
        Option("extended-data", "TEXT", "sent with the invitation and the answer"),
        Option(switch: "not-received-check", "report when no device of an invitee has received the invitation"),
        Option("if-busy", "POLICY", default: "ring", "ring or reject: an invitee who is in another call"),
        Option("glare", "POLICY", default: "ring", "ring or merge: an invitee who is calling you at the same time"),
    ]

    private static let answering = [
        Option("auto", "ANSWER", "answer incoming calls: accept, reject, busy or ignore"),
        Option("after", "DURATION", default: "0s", "how long --auto waits"),
        Option("hang-up-after", "DURATION", "end an advanced call this long after it was answered"),
    ]

    init(_ arguments: Arguments, isCall: Bool) throws(UsageError) {
        let name = arguments.command.name
        user = try arguments.required("as", "a user id of 1 to 64 bytes", UserID.init)
        device = try arguments.value("device", "1 to 64 of A-Z a-z 0-9 . _ ~ -", DeviceID.init) ?? Self.randomDevice()
        brokers = try BrokerList.addresses(arguments).map(\.description).joined(separator: ",")
        client = try BrokerAccess.configuration(user, device, arguments)
        client.topics = try arguments.required("topic-root", Topics.rootForm, Topics.init(root:))
        mode = try arguments.required("mode", "common or advanced", CallMode.init)
        media = try arguments.value("media", "at most \(Limits.mediaBytes) bytes") { Self.text($0, Limits.mediaBytes) }
        let timeout = try arguments.milliseconds("timeout", in: 1000...600_000)
        guard timeout % 1000 == 0 else { throw UsageError("bellwire \(name): --timeout: expected whole seconds") }
        self.timeout = Int(timeout / 1000)
        extendedData = try arguments.value("extended-data", "at most \(Limits.extendedDataBytes) bytes") {
            Self.text($0, Limits.extendedDataBytes)
        }
        notReceivedCheck = arguments.isSet("not-received-check")
        ifBusy = try arguments.required("if-busy", "ring or reject", BusyPolicy.init)
        glare = try arguments.required("glare", "ring or merge", GlarePolicy.init)
        auto = try arguments.value("auto", "accept, reject, busy or ignore", AutoAnswer.init)
        answerAfter = try arguments.milliseconds("after", in: 0...600_000)
        hangUpAfter = try arguments.value("hang-up-after", "a duration as 500ms, 5s or 1m", parseDuration)
        isJSON = arguments.isSet("json")
        once = isCall ? false : arguments.isSet("once")
        guard isCall else {
            role = .listen
            return
        }
        var users: [UserID] = []
        for word in arguments.positionals {
            guard let invitee = UserID(word) else { throw UsageError("bellwire call: \(word) is not a user id") }
            guard invitee != user else { throw UsageError("bellwire call: \(word) is the calling user") }
            if !users.contains(invitee) { users.append(invitee) }
        }
        role = .call(users)
    }

    private static func text(_ text: String, _ maxBytes: Int) -> String? { text.utf8.count <= maxBytes ? text : nil }

    /// Returns a random device id, so that two phones of one user do not replace each other.
    private static func randomDevice() -> DeviceID {
        guard let device = DeviceID("cli-" + String(UInt32.random(in: .min ... .max), radix: 16)) else {
            preconditionFailure("hex is a device id")
        }
        return device
    }
}
