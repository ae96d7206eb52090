import Delivery
import HTTPServing
import SignalingProtocol
import TemporaryFiles
import Testing
import Tokens

@testable import Gateway

@Suite struct CallPageTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        try directory.write("index.html", "<!doctype html>")
        try directory.write("page.js", "import 'x'")
        try directory.write("page.css", "body{}")
        try directory.write("notes.txt", "not for everybody")
        try directory.write(".hidden.js", "no")
    }

    private func page(_ url: String = "wss://mqtt.example.com:8084/mqtt") throws -> CallPage {
        try CallPage(directory: directory.path, webSocketURL: url, checksTokens: true)
    }

    @Test func itsFilesAreServedWithTheirTypes() throws {
        let page = try page()
        let index = try #require(page.response("GET", []))
        #expect(index.status == 200)
        #expect(index.contentType == "text/html; charset=utf-8")
        #expect(index.body == Array("<!doctype html>".utf8))
        #expect(page.response("GET", [""]) == index)
        #expect(page.response("HEAD", ["page.js"])?.contentType == "text/javascript; charset=utf-8")
        #expect(page.response("GET", ["page.css"])?.contentType == "text/css; charset=utf-8")
    }

    @Test(arguments: ["notes.txt", ".hidden.js", "nothing.js", "..", "../page.js"])
    func nothingElseIs(_ name: String) throws { #expect(try page().response("GET", [name]) == nil) }

    @Test func itIsReadOnly() throws {
        #expect(try page().response("POST", []) == nil)
        #expect(try page().response("GET", ["page.js", "page.js"]) == nil)
    }

    @Test func browsersLearnWhereTheBrokerIs() throws {
        let answer = try #require(try page().response("GET", ["page.json"]))
        #expect(String(decoding: answer.body, as: UTF8.self).contains(#""url":"wss://mqtt.example.com:8084/mqtt""#))
        #expect(String(decoding: answer.body, as: UTF8.self).contains(#""tokens":true"#))
    }

    @Test func aBrowserMayReachTheBrokerAndNobodyElse() throws {
        let headers = try #require(try page().response("GET", [])).headers
        let policy = try #require(headers.first { $0.name == "Content-Security-Policy" }).value
        #expect(policy.hasPrefix("default-src 'none'; "))
        #expect(policy.contains("connect-src 'self' wss://mqtt.example.com:8084;"))
        #expect(policy.contains("frame-ancestors 'none'"))
    }

    @Test func browsersLearnForWhomTheySubscribeAndWhereToAsk() throws {
        let key = try CryptographicKey.generate(.es256)
        func page(_ publicURL: String?, _ app: AppName = .standard, withWebPush: Bool = true) throws -> CallPage {
            let webPush = withWebPush ? WebPushSettings(key: key, subject: "mailto:ops@example.com") : nil
            return try CallPage(
                directory: directory.path, webSocketURL: "wss://mqtt.example.com", checksTokens: true,
                push: PushSettings(publicURL: publicURL, apps: [app: PushApp(webPush: webPush)]))
        }
        func policy(_ page: CallPage) -> String? {
            page.response("GET", [])?.headers.first { $0.name == "Content-Security-Policy" }?.value
        }
        func settings(_ page: CallPage) throws -> String {
            String(decoding: try #require(page.response("GET", ["page.json"])).body, as: UTF8.self)
        }
        let rung = try page("https://ring.example.com:8443/calls")
        let point = try #require(key.publicPoint)
        #expect(try settings(rung).contains(#""applicationServerKey":"\#(Base64URL.encode(point))""#))
        #expect(
            policy(rung)?.contains("connect-src 'self' wss://mqtt.example.com https://ring.example.com:8443;") == true)
        let unasked = try page(nil)
        #expect(try settings(unasked).contains("applicationServerKey"))
        #expect(policy(unasked)?.contains("connect-src 'self' wss://mqtt.example.com;") == true)
        for other in [
            try page("https://ring.example.com", AppName("work")!), try page("https://a", withWebPush: false),
        ] {
            #expect(try !settings(other).contains("applicationServerKey"))
            #expect(policy(other)?.contains("connect-src 'self' wss://mqtt.example.com;") == true)
        }
        #expect(throws: CallPage.Problem.self) { try page("https://a;script-src") }
    }

    @Test(arguments: [
        "", "http://a", "ws://", "ws://a b", "ws://a;script-src *", "wss://a/\r\nX: y", "ws://a,b", "ws://a@b",
        "ws://a?b",
    ])
    func isNoURL(_ url: String) { #expect(throws: CallPage.Problem.self) { try page(url) } }

    @Test func aDirectoryWithoutAPageIsNone() throws {
        let empty = try TemporaryDirectory()
        #expect(throws: CallPage.Problem.self) {
            try CallPage(directory: empty.path, webSocketURL: "ws://a", checksTokens: false)
        }
        #expect(throws: CallPage.Problem.self) {
            try CallPage(directory: empty.path + "/nowhere", webSocketURL: "ws://a", checksTokens: false)
        }
    }

    @Test func itsSizeIsBounded() throws {
        try directory.write("large.js", [UInt8](repeating: 0, count: 2 * 1024 * 1024 + 1))
        #expect(throws: CallPage.Problem.self) { try page() }
    }
}
