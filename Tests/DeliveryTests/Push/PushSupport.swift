import CallCore
import Foundation
import HTTPSending
import SignalingProtocol
import Support
import Testing
import Tokens

@testable import Delivery

let alice = UserID("alice")!
let bob = UserID("bob")!
let carol = UserID("carol")!
let phone = DeviceID("phone")!
let callID = CallID("call-1")!
let start: Milliseconds = 1_790_000_000_123

/// The same moment by the wall clock.
let wallStart = WallTime(milliseconds: start)

func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
func json(_ bytes: [UInt8]) throws -> JSONObject { try #require(try JSONParser.parse(bytes).object) }

enum Keys {
    /// A key of P-256.
    static let apns = try! CryptographicKey.generate(.es256)
    static let vapid = try! CryptographicKey.generate(.es256)
    static let account = try! CryptographicKey.generate(.rs256)
    /// The key of a browser.
    static let browser = try! CryptographicKey.generate(.es256)
    static let auth = [UInt8](1...16)
}

/// Alice calls Bob.
func pushedCall(
    _ invitees: [UserID] = [bob], callID: CallID = callID, media: String? = "video", name: String? = "Alice",
    avatarURL: String? = "https://example.com/a.png"
) throws -> CallMachine {
    let address = DeviceAddress(userID: alice, deviceID: phone)
    return try CallMachine.invited(
        .init(
            callID: callID, invite: Request.Invite(invitees: invitees, mode: .advanced, timeout: 30, media: media),
            busy: [], isCancelled: false),
        .init(key: RequestKey(device: address, requestID: RequestID("r")!), now: start),
        .init(
            profiles: [alice: UserProfile(name: name, avatarURL: avatarURL)], unregistered: [], limited: [],
            withheld: [], pushable: nil), activeElsewhere: nil,
        settings: CallSettings())
}

func content(
    _ kind: PushKind = .ring, said: Request.Push? = nil, texts: PushTexts = PushTexts(), check: String? = nil,
    name: String? = "Alice", media: String? = "video", avatarURL: String? = "https://example.com/a.png"
) throws -> PushContent {
    let call = try pushedCall(media: media, name: name, avatarURL: avatarURL).call
    let member = try #require(call.member(bob))
    return PushContent(kind, of: call, to: member, said: said, texts: texts, check: check)
}

func registration(
    _ platform: PushPlatform, token: String = "a1b2", app: AppName = .standard, since: Milliseconds = start
) -> PushRegistration {
    let target: PushTarget =
        platform == .webPush
        ? .subscription(
            endpoint: "https://push.example/send/\(token)", p256dh: Base64URL.encode(Keys.browser.publicPoint!),
            auth: Base64URL.encode(Keys.auth)) : .token(token)
    return PushRegistration(
        .init(DeviceAddress(userID: bob, deviceID: phone), app, platform), target: target, digest: "d", since: since)
}

func push(
    _ platform: PushPlatform, _ kind: PushKind = .ring, token: String = "a1b2", wasRung: Bool = false,
    said: Request.Push? = nil
) throws -> OutgoingPush {
    OutgoingPush(
        registration(platform, token: token), try content(kind, said: said), invitation: 1, wasRung: wasRung)
}

let providerSettings = PushSettings(
    publicURL: "https://ring.example.com",
    apps: [
        .standard: PushApp(
            apns: APNsSettings(
                key: Keys.apns, keyID: "ABC123", teamID: "DEF456", bundleID: "com.example.app",
                endpoint: try! ProviderEndpoint("https://apns.example")),
            fcm: FCMSettings(
                account: ServiceAccount(
                    email: "push@example.iam", project: "example",
                    tokenURL: try! HTTPSURL("https://oauth.example/token"),
                    keyID: "k1", key: Keys.account), endpoint: try! ProviderEndpoint("https://fcm.example/")),
            webPush: WebPushSettings(key: Keys.vapid, subject: "mailto:ops@example.com"))
    ])

extension PushProviders {
    /// The request for a push that needs no other request first.
    func request(
        _ push: OutgoingPush, id: UInt64 = 1, now: Milliseconds = start, wall: WallTime? = nil
    ) throws -> HTTPRequest {
        let preparation = prepare(push, id: id, now: now, wall: wall ?? WallTime(milliseconds: now))
        guard case .send(let request) = preparation else { throw Unexpected("\(preparation)") }
        return request
    }

    /// Prepares a push while both clocks show the same time.
    func prepare(_ push: OutgoingPush, id: UInt64, now: Milliseconds) -> PushPreparation {
        prepare(push, id: id, now: now, wall: WallTime(milliseconds: now))
    }

    func verdict(of answer: HTTPAnswer, for push: OutgoingPush, now: Milliseconds) -> PushVerdict {
        verdict(of: answer, for: push, now: now, wall: WallTime(milliseconds: now))
    }

    /// The request for a token.
    func tokenRequest(
        _ push: OutgoingPush, id: UInt64, now: Milliseconds = start, wall: WallTime? = nil
    ) throws -> HTTPRequest {
        let preparation = prepare(push, id: id, now: now, wall: wall ?? WallTime(milliseconds: now))
        guard case .waitForToken(let request?) = preparation else {
            throw Unexpected("no request for a token")
        }
        return request
    }
}

struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

func answer(_ id: UInt64 = 1, _ status: Int, _ body: String = "", retryAfter: Int? = nil) -> HTTPAnswer {
    HTTPAnswer(
        id: id, outcome: .answered(.init(status: status, retryAfter: retryAfter, body: Array(body.utf8))), took: 1)
}

extension HTTPRequest {
    subscript(header name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// The claims of a token that `key` has signed.
func claims(_ token: String, _ key: CryptographicKey, keyID: String?) throws -> JSONObject {
    let parts = token.split(separator: ".").map { Array($0.utf8) }
    try #require(parts.count == 3)
    let header = try json(try #require(Base64URL.decode(parts[0])))
    #expect(header["alg"]?.string == key.algorithm.rawValue && header["kid"]?.string == keyID)
    let signature = try #require(Base64URL.decode(parts[2]))
    #expect(key.isValid(signature, of: parts[0] + [UInt8(ascii: ".")] + parts[1]))
    return try json(try #require(Base64URL.decode(parts[1])))
}
