import BellwireClient
import SignalingProtocol

/// A call as the user of this phone sees the call.
struct PhoneCall {
    var snapshot: CallSnapshot
    /// Whether this phone made the call.
    var isOutgoing: Bool
    /// Whether the call rang here, was made here, or was answered here. The end of such a call matters to this phone.
    var isOurs = false
    /// The outcome, once the call has ended for this phone.
    var outcome: CallOutcome?
    /// Whether the timer to hang up runs.
    var hangsUp = false
}

/// The inputs of a phone, which a single loop handles one after the other.
enum PhoneInput: Sendable {
    enum Timer: Sendable {
        case answer(CallID)
        case hangUp(CallID)
        /// The broker is connected, but the service has not answered yet.
        case serviceMissing
        /// The time to leave is over, although a request has no response.
        case leaving
    }

    case connected(SignalingError?)
    case client(ClientEvent)
    case response(String, CallID, Result<Response.Success, SignalingError>)
    case console(PhoneConsole.Input)
    case timer(Timer)
}

/// The phone in the terminal: `bellwire call` and `bellwire listen`. Only a single loop uses the phone's state.
package final class Phone {
    /// How long leaving a ringing or live call may take, in milliseconds.
    static let goodbyeLimit: Int64 = 3000

    let settings: PhoneSettings
    let timeline: PhoneTimeline
    let client: SignalingClient
    private let inputs: AsyncStream<PhoneInput>
    let inbox: AsyncStream<PhoneInput>.Continuation

    var calls: [PhoneCall] = []
    /// The call that `bellwire call` makes.
    var outgoing: CallID?
    /// The number of requests without a response.
    var unanswered = 0
    private var isConnected = false
    var isOnline = false
    var isLeaving = false
    /// The user id that is being typed after `+`.
    var prompt: [UInt8]?
    /// The exit status, once the phone is done.
    var status: Int32?

    init(_ settings: PhoneSettings) {
        self.settings = settings
        timeline = PhoneTimeline(settings)
        client = SignalingClient(settings.client)
        (inputs, inbox) = AsyncStream.makeStream(of: PhoneInput.self)
    }

    /// Runs `bellwire call USER…`. Returns the exit status.
    package static func call(_ words: [String]) async throws(UsageError) -> Int32 {
        let settings = try PhoneSettings(Arguments(PhoneSettings.callCommand, words), isCall: true)
        return await Phone(settings).run()
    }

    /// Runs `bellwire listen`. Returns the exit status.
    package static func listen(_ words: [String]) async throws(UsageError) -> Int32 {
        let settings = try PhoneSettings(Arguments(PhoneSettings.listenCommand, words), isCall: false)
        return await Phone(settings).run()
    }

    private func run() async -> Int32 {
        let (client, inbox) = (client, inbox)
        PhoneConsole.open { inbox.yield(.console($0)) }
        Task {
            for await event in client.events { inbox.yield(.client(event)) }
        }
        Task {
            do throws(SignalingError) {
                try await client.connectToBroker()
                inbox.yield(.connected(nil))
            } catch {
                inbox.yield(.connected(error))
            }
        }
        for await input in inputs {
            handle(input)
            settle()
            if status != nil { break }
        }
        await client.disconnect()
        TerminalMode.restore()
        return status ?? CallOutcome.error.exitStatus
    }

    private func handle(_ input: PhoneInput) {
        switch input {
        case .connected(nil): connected()
        case .connected(let error?): failed(error)
        case .client(.connection(.takenOver)):
            failed(SignalingError(.notConnected, "another connection has the device \(settings.device) now"))
        case .client(.connection): break
        case .client(let event):
            // The first event may come before `connectToBroker()` returns.
            connected()
            handle(event)
        case .response(let request, let callID, let outcome): answered(request, callID, outcome)
        case .console(.key(let key)): pressed(key)
        case .console(.signal), .console(.outputClosed): leave()
        case .timer(.answer(let callID)): answer(callID)
        case .timer(.hangUp(let callID)): hangUp(callID)
        case .timer(.serviceMissing):
            if !isOnline { timeline.line("serviceMissing", "the broker is there; the service does not answer yet") }
        case .timer(.leaving): finish()
        }
    }

    private func connected() {
        guard !isConnected else { return }
        isConnected = true
        let address = "\(settings.user) on \(settings.device)"
        timeline.line("connected", "connected to \(settings.brokers) as \(address)") { writer in
            writer.field("user", settings.user.string)
            writer.field("device", settings.device.string)
        }
        if PhoneConsole.hasKeys { timeline.note(PhoneSettings.keysHelp) }
        after(3000, .serviceMissing)
        switch settings.role {
        case .listen: break
        case .call(let users): invite(users)
        }
    }

    private func failed(_ error: SignalingError) {
        timeline.line("error", nil) { writer in
            writer.field("code", error.code.rawValue)
            writer.field("message", error.message)
        }
        writeError("bellwire \(settings.commandName): \(error.message)")
        status = CallOutcome.error.exitStatus
    }

    private func invite(_ users: [UserID]) {
        let callID = SignalingClient.makeCallID()
        outgoing = callID
        let names = users.map(\.string).joined(separator: ", ")
        let media = settings.media.map { "\($0), " } ?? ""
        let kind = "\(media)\(settings.mode.rawValue), \(settings.timeout) s"
        timeline.line("calling", "calling \(names) (\(kind)), call \(callID)") { $0.field("callID", callID.string) }
        let invite = Request.Invite(
            invitees: users, callID: callID, mode: settings.mode, timeout: settings.timeout, media: settings.media,
            extendedData: settings.extendedData, notReceivedCheck: settings.notReceivedCheck,
            ifBusy: settings.ifBusy, glare: settings.glare)
        request("call.invite", callID) { client throws(SignalingError) in try await client.invite(invite) }
    }

    // MARK: Requests and timers

    /// Sends a request. The outcome of the request becomes an input.
    func request(
        _ name: String, _ callID: CallID,
        _ send: @escaping @Sendable (SignalingClient) async throws(SignalingError) -> Response.Success
    ) {
        unanswered += 1
        let (client, inbox) = (client, inbox)
        Task {
            do throws(SignalingError) {
                inbox.yield(.response(name, callID, .success(try await send(client))))
            } catch {
                inbox.yield(.response(name, callID, .failure(error)))
            }
        }
    }

    func after(_ milliseconds: Int64, _ timer: PhoneInput.Timer) {
        let inbox = inbox
        Task {
            try await Task.sleep(for: .milliseconds(milliseconds))
            inbox.yield(.timer(timer))
        }
    }
}
