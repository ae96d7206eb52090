import SignalingProtocol
import Testing

/// Registrations, ring checks and the entries of timelines about pushes (docs/protocol.md, section 7).
@Suite struct PushTests {
    /// 65 bytes: 4, and 64 zeros.
    static let point = "BA" + String(repeating: "A", count: 85)
    /// 16 bytes.
    static let secret = String(repeating: "A", count: 22)

    private func register(_ fields: String) -> String { #"{"type":"push.register","id":"r",\#(fields)}"# }

    private func subscription(
        endpoint: String = "https://push.example/x", p256dh: String = point, auth: String = secret
    )
        -> String
    {
        #""platform":"webPush","subscription":{"endpoint":"\#(endpoint)","expirationTime":null,"#
            + #""keys":{"p256dh":"\#(p256dh)","auth":"\#(auth)"}}"#
    }

    @Test(arguments: [PushPlatform.apns, .apnsVoIP])
    func appleSTokensAreTheSameInBothLetterCases(_ platform: PushPlatform) {
        #expect(platform.identity(of: .token("aB01")) == platform.identity(of: .token("Ab01")))
        #expect(platform.identity(of: .token("ab01")) == "ab01")
    }

    @Test func othersAreNot() {
        #expect(PushPlatform.fcm.identity(of: .token("aB:x")) == "aB:x")
        let subscription = PushTarget.subscription(endpoint: "https://a.example/X", p256dh: "p", auth: "a")
        #expect(PushPlatform.webPush.identity(of: subscription) == "https://a.example/X")
    }

    @Test(arguments: [(PushPlatform.apns, "0aF9"), (.apnsVoIP, "ab_C-9"), (.fcm, "a:b.c/~!")])
    func aTokenIsRead(_ platform: PushPlatform, _ token: String) throws {
        #expect(
            try body(register(#""platform":"\#(platform.rawValue)","token":"\#(token)""#))
                == .pushRegister(.init(platform: platform, app: AppName("default")!, target: .token(token))))
        #expect(
            try body(
                register(#""platform":"\#(platform.rawValue)","token":"\#(token)","app":"pro","subscription":null"#))
                == .pushRegister(.init(platform: platform, app: AppName("pro")!, target: .token(token))))
        let longest = String(repeating: "a", count: 4096)
        #expect(try body(register(#""platform":"\#(platform.rawValue)","token":"\#(longest)""#)) != nil)
        #expect(refused(register(#""platform":"\#(platform.rawValue)","token":"\#(longest)a""#)) != nil)
    }

    @Test func aSubscriptionIsReadWithAndWithoutPadding() throws {
        let target = PushTarget.subscription(
            endpoint: "https://push.example/x", p256dh: Self.point, auth: Self.secret)
        let expected = Request.Body.pushRegister(.init(platform: .webPush, target: target))
        #expect(try body(register(subscription())) == expected)
        #expect(try body(register(subscription(p256dh: Self.point + "=", auth: Self.secret + "=="))) == expected)
        #expect(target.identity == "https://push.example/x")
    }

    @Test(arguments: [
        "https://a", "https://a/%2e%2E?x=%", "HTTPS://a.b:443/", "https://[2001:db8::1]:8443/p?q=1",
        "https://10.0.0.1/up?x=@y",
    ])
    func whereAPushServiceMayBe(_ endpoint: String) throws {
        #expect(try body(register(subscription(endpoint: endpoint))) != nil)
    }

    @Test(arguments: [
        "", "http://push.example/x", "https://", "https:///x", "https://user@push.example/",
        "https://u:p@push.example/",
        "https://push.example:0/", "https://push.example:65536/", "https://push.example:/", "https://push.example:1x/",
        "https://[::1/", "https://[]/", "https://[::1]x/", "https://push.example/a b", "https://push.example/\u{E9}",
        "https://push.example/#f", "https://push.example\\\\@x", "push.example",
        "https://push%2Eexample/", "https://127.0.0.1%00.push.example/", "https://[fe80::1%25eth0]/",
        "https://[::1%lo]:443/",
        "https://push.example/" + String(repeating: "x", count: 4096),
    ])
    func whereNoneCanBe(_ endpoint: String) throws {
        let refusal = try #require(refused(register(subscription(endpoint: endpoint))))
        #expect(refusal.error.code == .badRequest)
        #expect(refusal.error.message.hasPrefix("subscription.endpoint: "))
    }

    @Test(
        arguments: [
            ("", "platform"), (#""platform":"sms","token":"x""#, "platform"), (#""platform":"fcm""#, "token"),
            (#""platform":"fcm","token":"""#, "token"), (#""platform":"fcm","token":5"#, "token"),
            (#""platform":"fcm","token":"a b""#, "token"), (#""platform":"fcm","token":"a\n""#, "token"),
            (#""platform":"apns","token":"../x""#, "token"), (#""platform":"apnsVoIP","token":"a.b""#, "token"),
            (#""platform":"apns","token":"x","app":"a b""#, "app"),
            (#""platform":"apns","token":"x","subscription":{}"#, "subscription"),
            (#""platform":"webPush","token":"x""#, "token"), (#""platform":"webPush""#, "subscription"),
            (#""platform":"webPush","subscription":5"#, "subscription"),
            (#""platform":"webPush","subscription":{}"#, "subscription.endpoint"),
            (#""platform":"webPush","subscription":{"endpoint":5}"#, "subscription.endpoint"),
            (#""platform":"webPush","subscription":{"endpoint":"https://a"}"#, "subscription.keys.p256dh"),
            (#""platform":"webPush","subscription":{"endpoint":"https://a","keys":5}"#, "subscription.keys"),
            (#""platform":"webPush","subscription":{"endpoint":"https://a","keys":{}}"#, "subscription.keys.p256dh"),
        ])
    func whatIsWrongIsNamed(_ fields: String, _ name: String) throws {
        let text = fields.isEmpty ? #"{"type":"push.register","id":"r"}"# : register(fields)
        let refusal = try #require(refused(text))
        #expect(refusal.requestID == RequestID("r") && refusal.error.code == .badRequest)
        #expect(refusal.error.message.hasPrefix(name + ": "), "\(refusal.error)")
    }

    @Test(arguments: [
        String(repeating: "A", count: 87), "BA", point + "AA", "BA" + String(repeating: "A", count: 84) + "B",
        "BA" + String(repeating: "A", count: 84) + "+", point + "===",
    ])
    func aKeyIsAnUncompressedPoint(_ key: String) throws {
        let refusal = try #require(refused(register(subscription(p256dh: key))))
        #expect(refusal.error.message.hasPrefix("subscription.keys.p256dh: "))
    }

    @Test(arguments: ["", "AAAA", secret + "A", String(repeating: "A", count: 21) + "/"])
    func theSecretHasSixteenBytes(_ key: String) throws {
        let refusal = try #require(refused(register(subscription(auth: key))))
        #expect(refusal.error.message.hasPrefix("subscription.keys.auth: "))
    }

    @Test func whatIsUnregisteredMayBeLeftOut() throws {
        #expect(try body(#"{"type":"push.unregister","id":"r"}"#) == .pushUnregister(.init()))
        #expect(
            try body(#"{"type":"push.unregister","id":"r","platform":"fcm","app":"pro"}"#)
                == .pushUnregister(.init(platform: .fcm, app: AppName("pro")!)))
        #expect(refused(#"{"type":"push.unregister","id":"r","platform":"sms"}"#)?.error.code == .badRequest)
    }

    @Test func aRingCheckIsForBackends() throws {
        let text = #"{"type":"call.ringCheck","id":"r","callID":"c","device":"a.b","invitation":3,"reject":true}"#
        let check = try #require(try body(text))
        #expect(
            check
                == .ringCheck(.init(callID: CallID("c")!, device: DeviceID("a.b")!, invitation: 3, isRejected: true)))
        #expect(check.isForBackends && !check.changesCall && check.callID == CallID("c"))
        #expect(
            refused(#"{"type":"call.ringCheck","id":"r","callID":"c","device":"a","invitation":0}"#)?.error.code
                == .badRequest)
    }

    // MARK: Answers

    private func text(_ answer: Answer) -> String {
        String(
            decoding: DownMessage.response(.init(id: RequestID("r")!, outcome: .answer(answer))).encoded(),
            as: UTF8.self)
    }

    @Test func whatIsRegisteredIsTold() {
        let registration = RegisteredPush(platform: .apnsVoIP, app: .standard, since: 7)
        #expect(
            text(.registrations([registration]))
                == #"{"type":"response","id":"r","ok":true,"registrations":"#
                + #"[{"platform":"apnsVoIP","app":"default","since":7}]}"#)
        #expect(text(.registrations([])).hasSuffix(#","registrations":[]}"#))
    }

    @Test func whatIsOverSaysWhy() {
        #expect(
            text(.ring(.over(.answeredElsewhere)))
                == #"{"type":"response","id":"r","ok":true,"ringing":false,"reason":"answeredElsewhere"}"#)
    }

    // MARK: Timelines

    @Test func aPushIsTold() {
        let device = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
        let sent = PushStep(
            device: device, platform: .apns, kind: .missed, outcome: .refused, status: 400, reason: "BadTopic",
            took: 12)
        let entry = TraceEntry(time: 5, coordinator: "c", step: .push(sent))
        #expect(
            String(decoding: entry.encoded(), as: UTF8.self)
                == #"{"time":5,"coordinator":"c","kind":"push","userID":"bob","device":"phone","platform":"apns","#
                + #""push":"missed","outcome":"refused","status":400,"reason":"BadTopic","took":12}"#)
        #expect(TraceEntry(entry.encoded()) == entry)
    }

    @Test func nobodyLearnsOfTheDevicesOfOthers() {
        let entries = ["alice", "bob"].map { user in
            TraceEntry(
                time: 1, coordinator: "c",
                step: .push(
                    PushStep(
                        device: DeviceAddress(userID: UserID(user)!, deviceID: DeviceID("d")!), platform: .fcm,
                        kind: .ring, outcome: .sent)))
        }
        let late = TraceEntry(time: 2, coordinator: "c", step: .deadline(late: 0))
        let timeline = Timeline(entries: entries + [late], omitted: 3)
        #expect(timeline.told(to: UserID("bob")!) == Timeline(entries: [entries[1], late], omitted: 3))
        #expect(timeline.told(to: UserID("carol")!) == Timeline(entries: [late], omitted: 3))
    }
}
