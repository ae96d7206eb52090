import Delivery
import Gateway
import Glibc

/// The flags of the call page (docs/browsers.md).
enum PageOptions {
    static let page = Option(
        "page", "DIRECTORY", default: "", "the directory of the call page; by default next to the program")
    static let webSocketURL = Option(
        "websocket-url", "URL", default: "",
        "the broker's URL for browsers, such as wss://mqtt.example.com, several with commas; serves the call page at /")
    static let brokerTokens = Option(
        "broker-tokens", "true|false", default: "true", "whether the broker asks browsers for a token")

    /// Returns the call page of a gateway; nil for a gateway without a page.
    static func page(_ arguments: Arguments) throws(UsageError) -> CallPage? {
        let checksTokens = try arguments.required("broker-tokens", "true or false") {
            ["true": true, "false": false][$0]
        }
        let directory = arguments.text("page").flatMap { $0.isEmpty ? nil : $0 }
        guard let url = arguments.text("websocket-url"), !url.isEmpty else {
            guard directory == nil else { throw UsageError("bellwire gateway: --page goes with --websocket-url") }
            return nil
        }
        guard let found = directory ?? besideTheProgram else {
            throw UsageError(
                "bellwire gateway: --websocket-url: there is no call page beside the program: name its directory by --page"
            )
        }
        return try page(found, url, checksTokens: checksTokens, arguments, "bellwire gateway")
    }

    /// Returns the call page of `bellwire dev`; nil when the page has not been built.
    static func devPage(_ arguments: Arguments, webSocketPort: Int) throws(UsageError) -> CallPage? {
        let named = arguments.text("page").flatMap { $0.isEmpty ? nil : $0 }
        guard let directory = named ?? besideTheProgram else { return nil }
        return try page(directory, "ws://127.0.0.1:\(webSocketPort)", checksTokens: false, arguments, "bellwire dev")
    }

    private static func page(
        _ directory: String, _ url: String, checksTokens: Bool, _ arguments: Arguments, _ command: String
    ) throws(UsageError) -> CallPage {
        let push = try arguments.file("push").map { file throws(UsageError) in
            try PushDelivery.settings(file, command)
        }
        do throws(CallPage.Problem) {
            return try CallPage(directory: directory, webSocketURL: url, checksTokens: checksTokens, push: push)
        } catch {
            throw UsageError("\(command): the call page: \(error.description)")
        }
    }

    /// The directory `page` next to the program, as in the image.
    private static var besideTheProgram: String? {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count - 1)
        guard count > 0 else { return nil }
        let program = String(decoding: path.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
        guard let slash = program.lastIndex(of: "/") else { return nil }
        let directory = program[..<slash] + "/page"
        return access(directory + "/index.html", R_OK) == 0 ? String(directory) : nil
    }
}
