import CallCore
import Delivery
import FoundationEssentials
import SignalingProtocol
import Testing
import Tokens

@testable import Gateway
@testable import HTTPServing

/// The ring check as it comes over HTTP (docs/protocol.md, section 7).
@Suite struct RingTests {
    private let secret = [UInt8](repeating: 7, count: 32)
    private let relay = Inbox<AskedRequest>(most: 1)!
    private let reader = Inbox<AskedQuestion>(most: 1)!
    private let desk: RingDesk
    private let handler: RequestHandler

    init() throws {
        desk = RingDesk(relay)
        let file = FileManager.default.temporaryDirectory.appending(path: "ring-\(UInt64.random(in: 0 ... .max)).json")
        try Data(KeySet([try TokenKey.generate(.es256)]).encoded(isPublic: true)).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        handler = RequestHandler(
            try BearerCheck(keys: file.path(), issuer: nil, audience: nil), relay, reader, desk,
            StreamDesk(most: 10)!, nil,
            GatewayStatus())
    }

    private func key(_ call: String = "c", _ user: String = "bob", _ device: String = "phone") -> String {
        RingKey.text(
            secret: secret, callID: CallID(call)!, user: UserID(user)!, device: DeviceID(device)!, invitation: 3)!
    }

    private func ask(_ method: String, _ target: String) -> HTTPResponse? {
        handler.handle(
            HTTPExchange(RequestHead(method: method, target: target, version: "HTTP/1.1", fields: []), body: []),
            .everything)
    }

    private func relayed() throws -> (device: DeviceAddress, body: Request.Body) {
        let item = try #require(relay.take().first)
        guard case .success(.request(let request)) = UpMessage.decode(item.request.payload) else {
            throw Missing()
        }
        return (item.request.device, request.body)
    }

    private struct Missing: Error {}

    private func header(_ response: HTTPResponse?, _ name: String) -> [String] {
        (response?.headers ?? []).filter { $0.name == name }.map(\.value)
    }

    private func isOpenToDevices(_ response: HTTPResponse?) -> Bool {
        header(response, "Access-Control-Allow-Origin") == ["*"] && header(response, "Cache-Control") == ["no-store"]
            && header(response, "Referrer-Policy") == ["no-referrer"]
    }

    @Test func aRightKeyIsHandedToACoordinator() throws {
        desk.learn(secret)
        #expect(ask("GET", "/v1/ring/c?user=bob&device=phone&key=\(key())") == nil)
        let (device, body) = try relayed()
        #expect("\(device)" == "bob/server")
        #expect(body == .ringCheck(.init(callID: CallID("c")!, device: DeviceID("phone")!, invitation: 3)))
        #expect(ask("POST", "/v1/ring/c/reject?key=\(key())&device=phone&user=bob&x=y") == nil)
        #expect(
            try relayed().body
                == .ringCheck(
                    .init(callID: CallID("c")!, device: DeviceID("phone")!, invitation: 3, isRejected: true)))
    }

    @Test func aUserIsPercentEncoded() throws {
        desk.learn(secret)
        #expect(ask("GET", "/v1/ring/c?user=a%2B%20%26%C3%A9&device=phone&key=\(key("c", "a+ &é"))") == nil)
        #expect(try relayed().device.userID == UserID("a+ &é"))
    }

    @Test(arguments: [
        "/v1/ring/c?user=bob&device=phone&key={other call}", "/v1/ring/c?user=eve&device=phone&key={right}",
        "/v1/ring/c?user=bob&device=web&key={right}", "/v1/ring/c?user=bob&device=phone&key={right}A",
        "/v1/ring/c?user=bob&device=phone&key=4{right}", "/v1/ring/c?user=bob&device=phone&key=",
        "/v1/ring/c?user=bob&device=phone", "/v1/ring/c?user=bob&key={right}", "/v1/ring/c?device=phone&key={right}",
        "/v1/ring/c", "/v1/ring/a%2Fb?user=bob&device=phone&key={right}",
        "/v1/ring/c?user=%FF&device=phone&key={right}",
        "/v1/ring/c?user=bob&device=a%20b&key={right}", "/v1/ring/c?user=bob&device=server&key={right}",
    ])
    func allElseIsTheSameRefusalAndCostsNothing(_ target: String) throws {
        desk.learn(secret)
        let filled = target.replacing("{right}", with: key()).replacing("{other call}", with: key("d"))
        let (path, query) = (filled.prefix { $0 != "?" }, filled.drop { $0 != "?" })
        for response in [ask("GET", filled), ask("POST", path + "/reject" + query)] {
            #expect(response?.status == 404 && response?.contentType == "application/problem+json")
            #expect(response?.body == Problem.wrongRingKey.response.body)
            #expect(isOpenToDevices(response))
        }
        #expect(relay.take().isEmpty && reader.take().isEmpty)
    }

    @Test func theFirstOneWaitsForTheSecret() throws {
        #expect(ask("GET", "/v1/ring/c?user=bob&device=phone&key=\(key())") == nil)
        #expect(relay.take().isEmpty)
        guard case .ring(let question)? = reader.take().first?.question else { throw Missing() }
        #expect(question.key == key() && "\(question.device)" == "bob/phone" && !question.isRejected)
    }

    @Test func whatIsTooMuchIsRefused() {
        desk.learn(secret)
        #expect(ask("GET", "/v1/ring/c?user=bob&device=phone&key=\(key())") == nil)
        let response = ask("GET", "/v1/ring/c?user=bob&device=phone&key=\(key())")
        #expect(response?.status == 503 && isOpenToDevices(response) && header(response, "Retry-After") == ["1"])
    }

    @Test(arguments: [("/v1/ring/c", "GET"), ("/v1/ring/c/reject", "POST")])
    func aBrowserMayAsk(_ path: String, _ method: String) {
        let response = ask("OPTIONS", path)
        #expect(response?.status == 204 && isOpenToDevices(response))
        #expect(header(response, "Access-Control-Allow-Methods") == [method])
    }

    @Test func whatIsNotForDevicesIsNotOpenToThem() {
        #expect(header(ask("GET", "/v1/calls/c"), "Access-Control-Allow-Origin").isEmpty)
    }

    // MARK: Answers

    private func answer(_ outcome: Response.Outcome) -> HTTPResponse? {
        RelayedRequest.Answer.ring.response(
            DownMessage.response(Response(id: RequestID("r")!, outcome: outcome)).encoded(), isFirst: true)
    }

    @Test func whatTheDeviceIsTold() {
        let over = answer(.answer(.ring(.over(.timeout))))
        #expect(over?.status == 200)
        #expect(String(decoding: over?.body ?? [], as: UTF8.self) == #"{"ringing":false,"reason":"timeout"}"#)
    }

    @Test(
        arguments: [
            (.callNotFound, 404), (.rateLimited, 429), (.unavailable, 503), (.internal, 500), (.unknownType, 503),
            (.badRequest, 503),
        ] as [(ErrorCode, Int)])
    func aRefusalTellsNothing(_ code: ErrorCode, _ status: Int) {
        let response = answer(.failure(SignalingError(code, "why", state: "accepted", retryAfter: 1_500)))
        #expect(response?.status == status)
        if status == 404 { #expect(response == Problem.wrongRingKey.response) }
    }
}
