import Glibc
import HTTPSending
import MQTTClient
import SignalingProtocol
import Support

/// `bellwire admin`: looks at calls, and acts on calls and users, through a gateway (docs/operations.md, Acting on
/// calls and users).
package enum AdminCommand {
    private static let options = [
        Option("gateway", "URL", "the address of a gateway, http:// or https://; required"),
        Option("token-file", "FILE", "a file with a token of role admin; required"),
        Option("gateway-ca", "FILE", default: "", "certificate authorities to trust with https://"),
    ]
    private static let pages = [
        Option("count", "N", default: "20", "the number of entries: 1 to 100"),
        Option("cursor", "TEXT", default: "", "the cursor of the page before"),
    ]

    private static let online = Command(
        name: "admin online", arguments: "", summary: "Prints devices that are online, in no order.",
        options: options + pages, positionals: 0...0)
    private static let live = Command(
        name: "admin live", arguments: "", summary: "Prints live calls, in no order.", options: options + pages,
        positionals: 0...0)
    private static let calls = Command(
        name: "admin calls", arguments: "USER", summary: "Prints a user's calls, the newest first.",
        options: options + pages, positionals: 1...1)
    private static let call = Command(
        name: "admin call", arguments: "CALLID", summary: "Prints a call with its timeline.", options: options,
        positionals: 1...1)
    private static let end = Command(
        name: "admin end", arguments: "CALLID", summary: "Ends a call for all its members.",
        options: options + [Option("reason", "TEXT", default: "", "why, at most 256 bytes; the members' apps see it")],
        positionals: 1...1)
    private static let signOut = Command(
        name: "admin sign-out", arguments: "USER [DEVICE]",
        summary: """
            Ends the sessions of a user's devices, or of one device, and their registrations for pushes. A device with a
            valid token may connect again.
            """,
        options: options, positionals: 1...2)
    private static let disable = Command(
        name: "admin disable", arguments: "USER",
        summary: """
            Signs a user out on all devices, and refuses the user's tokens and requests until the user is enabled again.
            """,
        options: options, positionals: 1...1)
    private static let enable = Command(
        name: "admin enable", arguments: "USER", summary: "Serves a disabled user again.", options: options,
        positionals: 1...1)
    private static let logLevel = Command(
        name: "admin log-level", arguments: "LEVEL",
        summary: """
            Has all coordinators and gateways log from a level on, within 5 s, until they restart: debug (a line for each
            response), info, warning or error.
            """,
        options: options, positionals: 1...1)
    private static let audit = Command(
        name: "admin audit", arguments: "",
        summary: "Prints what administrators did, the newest first. Entries are kept for 400 days.",
        options: options + pages, positionals: 0...0)

    private static let usage = """
        usage: bellwire admin online|live|calls|call|end|sign-out|disable|enable|log-level|audit --gateway URL --token-file FILE

        commands:
          admin online     the devices that are online
          admin live       the live calls
          admin calls      a user's calls
          admin call       a call with its timeline
          admin end        end a call for all
          admin sign-out   end the sessions of a user's devices
          admin disable    sign a user out, and refuse the user
          admin enable     serve a disabled user again
          admin log-level  the level of all processes' logs
          admin audit      what administrators did
        """

    /// Runs the command. Returns the exit status: 0, or 1 when the gateway refuses or does not answer.
    package static func run(_ words: [String]) throws -> Int32 {
        var words = words
        let name = words.isEmpty ? "" : words.removeFirst()
        switch name {
        case "online": return try ask(online, words) { try (.get, "online\(page($0))", nil) }
        case "live": return try ask(live, words) { try (.get, "calls\(page($0))", nil) }
        case "calls": return try ask(calls, words) { try (.get, "users/\(user($0))/calls\(page($0))", nil) }
        case "call": return try ask(call, words) { (.get, "calls/\(percentEncoded($0.positionals[0]))", nil) }
        case "end":
            return try ask(end, words) { arguments in
                let reason = arguments.text("reason").flatMap { $0.isEmpty ? nil : $0 }
                return (
                    .post, "calls/\(percentEncoded(arguments.positionals[0]))/end",
                    JSONWriter.object { $0.field("reason", reason) }
                )
            }
        case "sign-out":
            return try ask(signOut, words) { arguments in
                let device = arguments.positionals.dropFirst().first
                return (
                    .post, "users/\(try user(arguments))/sign-out", JSONWriter.object { $0.field("device", device) }
                )
            }
        case "disable": return try ask(disable, words) { try (.post, "users/\(user($0))/disable", []) }
        case "enable": return try ask(enable, words) { try (.post, "users/\(user($0))/enable", []) }
        case "log-level":
            return try ask(logLevel, words) { arguments in
                (.put, "log-level", JSONWriter.object { $0.field("level", arguments.positionals[0]) })
            }
        case "audit": return try ask(audit, words) { try (.get, "audit\(page($0))", nil) }
        case "--help", "-h", "help":
            print(usage)
            return 0
        default:
            throw UsageError(
                """
                bellwire admin: expected online, live, calls, call, end, sign-out, disable, enable, log-level or audit; \
                see bellwire admin --help
                """)
        }
    }

    private static func user(_ arguments: Arguments) throws -> String {
        guard let user = UserID(arguments.positionals[0]) else {
            throw UsageError("\(arguments.command.title): \(arguments.positionals[0]): not a user id")
        }
        return percentEncoded(user.string)
    }

    private static func page(_ arguments: Arguments) throws -> String {
        let count = try arguments.integer("count", in: 1...100)
        let cursor = arguments.text("cursor").flatMap { $0.isEmpty ? nil : $0 }
        return "?count=\(count)" + (cursor.map { "&cursor=\(percentEncoded($0))" } ?? "")
    }

    /// Sends the request that `request` makes of the arguments: a method, a path below `/v1/admin/`, and a body.
    private static func ask(
        _ command: Command, _ words: [String], _ request: (Arguments) throws -> (HTTPRequest.Method, String, [UInt8]?)
    ) throws -> Int32 {
        let arguments = try Arguments(command, words)
        let gateway = try AdminGateway(arguments)
        let (method, path, body) = try request(arguments)
        return gateway.ask(method, path, body)
    }
}

/// The gateway of the command line, asked once.
private struct AdminGateway {
    /// Milliseconds.
    private static let patience: Int64 = 20_000
    /// A page of calls has at most 256 KiB.
    private static let mostAnswer = 1 << 20

    private let command: String
    private let url: String
    private let token: String
    private let sender: HTTPSender

    init(_ arguments: Arguments) throws {
        command = "\(arguments.command.title)"
        let text = try arguments.required("gateway", "http://host:port or https://host:port") {
            $0.hasPrefix("http://") || $0.hasPrefix("https://") ? $0 : nil
        }
        url = text.hasSuffix("/") ? String(text.dropLast()) : text
        let file = try arguments.required("token-file", "a file") { $0.isEmpty ? nil : $0 }
        guard let token = readSecret(file) else { throw UsageError("\(command): --token-file \(file): no token in it") }
        self.token = token
        do throws(HTTPSender.SetupError) {
            sender = try HTTPSender(
                certificateAuthorityFile: try? arguments.file("gateway-ca"), userAgent: "bellwire/\(bellwireVersion)")
        } catch {
            throw UsageError("\(command): \(error)")
        }
    }

    func ask(_ method: HTTPRequest.Method, _ path: String, _ body: [UInt8]?) -> Int32 {
        defer { sender.stop() }
        var request = HTTPRequest(
            id: 1, method: method, url: "\(url)/v1/admin/\(path)",
            headers: [("Authorization", "Bearer \(token)")], body: body ?? [])
        if body != nil { request.headers.append(("Content-Type", "application/json")) }
        request.isToProvider = true
        request.allowsPlainHTTP = true
        request.timeout = Self.patience
        request.mostAnswer = Self.mostAnswer
        sender.send(request)
        var waiting = pollfd(fd: sender.descriptor, events: Int16(POLLIN), revents: 0)
        _ = poll(&waiting, 1, Int32(2 * Self.patience))
        guard let answer = sender.take().first else { return failed("no answer in time") }
        switch answer.outcome {
        case .answered(let response) where (200..<300).contains(response.status):
            if !response.body.isEmpty { writeOutput(String(decoding: response.body, as: UTF8.self)) }
            return 0
        case .answered(let response): return failed(Self.detail(of: response))
        case .notTried(let reason), .failed(let reason, _): return failed("\(url): \(reason)")
        case .notHandedOver: return failed("no answer in time")
        }
    }

    private func failed(_ reason: String) -> Int32 {
        writeError(PhoneTimeline.printable("\(command): \(reason)"))
        return 1
    }

    /// The reason of a refusal (docs/backend.md, Errors).
    private static func detail(of response: HTTPAnswer.Response) -> String {
        guard case .object(let json)? = try? JSONParser.parse(response.body), let detail = json["detail"]?.string else {
            return "the gateway answers with status \(response.status)"
        }
        return json["code"]?.string.map { "\(detail) (\($0))" } ?? detail
    }
}
