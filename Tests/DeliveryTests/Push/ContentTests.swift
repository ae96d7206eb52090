import CallCore
import SignalingProtocol
import Testing

@testable import Delivery

struct ContentTests {
    @Test func itTellsOfTheCallAndItsInviter() throws {
        let json = try json(try content(check: "https://ring.example.com/v1/ring/call-1?key=x").json)
        let expected = [
            "kind": "ring", "callID": "call-1", "inviter": "alice", "name": "Alice",
            "avatarURL": "https://example.com/a.png", "media": "video", "mode": "advanced", "title": "Alice",
            "body": "Incoming video call", "check": "https://ring.example.com/v1/ring/call-1?key=x",
        ]
        for (key, value) in expected { #expect(json[key]?.string == value, "\(key)") }
        #expect(json["revision"]?.integer == 1)
        #expect(json["createdAt"]?.integer == start && json["expiresAt"]?.integer == start + 30_000)
        #expect(json.fields.count == expected.count + 3)
    }

    @Test func whatIsNotKnownIsLeftOut() throws {
        let json = try json(try content(.stop, name: nil, media: nil, avatarURL: nil).json)
        #expect(
            json.fields.map(\.key) == ["kind", "callID", "revision", "inviter", "mode", "createdAt", "expiresAt"])
    }

    @Test func theTextsOfTheAppAreFilledIn() throws {
        let texts = PushTexts(
            ring: .init(title: "{name}{name}", body: "{inviter} {media} { {nam} }"), missed: .init(title: "", body: "x")
        )
        let ring = try content(texts: texts, name: nil, media: nil)
        #expect(ring.title == "alicealice" && ring.body == "alice voice { {nam} }")
        let missed = try content(.missed, texts: texts)
        #expect(missed.title == nil && missed.body == "x")
        #expect(try content(.stop, texts: texts).title == nil)
    }

    @Test func whatIsFilledInIsNotFilledInAgain() throws {
        let texts = PushTexts(ring: .init(title: "{name}", body: "{media}"))
        let content = try content(texts: texts, name: "{inviter}", media: "{name}")
        #expect(content.title == "{inviter}" && content.body == "{name}")
    }

    @Test func theTextsOfTheInvitationAreTakenAsTheyAre() throws {
        let said = Request.Push(title: "{name}", payload: "p")
        let content = try content(said: said)
        #expect(content.title == "{name}" && content.body == "Incoming video call" && content.payload == "p")
    }

    /// A push for a missed call must not say "Alice is calling you".
    @Test func theTextsOfTheRingingAreThoseOfNothingElse() throws {
        let said = Request.Push(title: "Alice is calling you", content: "Join now", payload: "p")
        let missed = try content(.missed, said: said)
        #expect(missed.title == "Alice" && missed.body == "Missed call" && missed.payload == "p")
        let stop = try content(.stop, said: said)
        #expect(stop.title == nil && stop.body == nil && stop.payload == "p")
    }

    @Test func theInvitationHasTextsOfItsOwnForTheMissedCall() throws {
        var said = Request.Push(title: "rings", content: "rings", missed: .init(title: "{name}", content: "Missed it"))
        var missed = try content(.missed, said: said)
        #expect(missed.title == "{name}" && missed.body == "Missed it")
        let ring = try content(said: said)
        #expect(ring.title == "rings" && ring.body == "rings")
        said.missed?.title = nil
        missed = try content(.missed, said: said)
        #expect(missed.title == "Alice" && missed.body == "Missed it")
    }

    // MARK: The visible text

    @Test(arguments: ["\u{202E}ecilA\u{202C}", "ec\u{200B}il\u{2067}A\u{200F}", "\u{FEFF}\u{2066}ecilA"])
    func whatTurnsTextRoundIsLeftOut(_ name: String) throws {
        let texts = PushTexts(ring: .init(title: "{name}", body: "{name} calls by {media}"))
        let ring = try content(texts: texts, name: name, media: "\u{202E}video")
        #expect(ring.name == "ecilA" && ring.title == "ecilA" && ring.body == "ecilA calls by video")
        let said = try content(said: .init(title: name, content: "\u{202E}\(name)"))
        #expect(said.title == "ecilA" && said.body == "ecilA")
        let missed = try content(.missed, said: .init(missed: .init(title: name, content: name)))
        #expect(missed.title == "ecilA" && missed.body == "ecilA")
    }

    @Test(arguments: [
        "\u{202E}", "\u{200B}\u{2060}", " \u{A0}", "\u{3164}", "\u{2800}", "\u{AD}\u{200D}", "\u{FE0F}", "\u{E0061}",
        "\u{301}",
    ])
    func whereNothingIsSeenTheUserIDIs(_ name: String) throws {
        let ring = try content(name: name, media: name)
        #expect(ring.name == nil && ring.title == "alice" && ring.body == "Incoming voice call")
        #expect(ring.media == name, "that is what the app goes by")
        let said = try content(said: .init(title: name, content: name), name: name)
        #expect(said.title == "alice" && said.body == "Incoming video call")
    }

    @Test(arguments: ["أليس", "عليس", "नमस्ते", "क्‍ष", "👩‍👩‍👧", "❤️", "🏴󠁧󠁢󠁷󠁬󠁳󠁿", "Zoë O’Hara 2"])
    func namesOfAllScriptsStay(_ name: String) throws {
        let ring = try content(name: name)
        #expect(ring.name?.hasSameBytes(as: name) == true && ring.title?.hasSameBytes(as: name) == true)
    }

    @Test func aUserIDCannotLookLikeAnother() throws {
        let facts = PushFacts(name: nil, inviter: UserID("ali\u{200B}ce")!, media: nil)
        #expect(facts.filled("{name}, {inviter}") == "ali\u{FFFD}ce, ali\u{FFFD}ce")
        #expect(PushFacts(name: nil, inviter: UserID("\u{3164} ")!, media: nil).filled("{name}") == "\u{FFFD}\u{FFFD}")
    }

    @Test func aTestIsOfNoCall() throws {
        let json = try json(PushContent(testAt: start).json)
        #expect(json.fields.map(\.key) == ["kind", "createdAt", "expiresAt", "title", "body"])
        #expect(json["kind"]?.string == "test")
    }

    // MARK: Content that is too long

    @Test func thePayloadGoesFirstThenTheAvatarThenTheEndOfBodyAndTitle() throws {
        let said = Request.Push(title: "TTTT", content: "BBBB", payload: String(repeating: "p", count: 100))
        let whole = try DeliveryTests.content(said: said)
        func size(_ content: PushContent) -> Int { content.json.count }
        let full = size(whole)
        #expect(whole.trimmed(to: full, size) == whole)
        let withoutPayload = whole.trimmed(to: full - 1, size)
        #expect(withoutPayload.payload == nil && withoutPayload.avatarURL != nil && withoutPayload.body == "BBBB")
        let withoutAvatar = whole.trimmed(to: size(withoutPayload) - 1, size)
        #expect(withoutAvatar.avatarURL == nil && withoutAvatar.body == "BBBB")
        let shorter = whole.trimmed(to: size(withoutAvatar) - 1, size)
        #expect(shorter.body == "BBB" && shorter.title == "TTTT")
        let bare = whole.trimmed(to: size(shorter) - 3 - #","body":"""#.utf8.count, size)
        #expect(bare.body == nil && bare.title == "TTTT")
        let barer = whole.trimmed(to: size(bare) - 2, size)
        #expect(barer.body == nil && barer.title == "TT")
        #expect(whole.trimmed(to: 0, size).title == nil)
    }

    @Test(arguments: ["👨‍👩‍👧‍👦", "é", "e\u{301}", "語", "\u{1}", "\""])
    func textsAreCutByWholeCharacters(_ character: String) throws {
        let said = Request.Push(content: String(repeating: character, count: 40))
        let whole = try DeliveryTests.content(said: said)
        func size(_ content: PushContent) -> Int { content.json.count }
        for limit in (400...500) where size(whole.trimmed(to: 0, size)) < limit {
            let trimmed = whole.trimmed(to: limit, size)
            #expect(size(trimmed) <= limit)
            let body = trimmed.body ?? ""
            #expect(body.hasSameBytes(as: String(repeating: character, count: body.count)))
        }
    }

    /// The fields that cannot be left out fit, whatever the users and the operator wrote.
    @Test func theLongestContentFitsEverywhere() throws {
        let control = "\u{1}"
        let many = { (count: Int) in String(repeating: control, count: count) }
        let user = try #require(UserID(many(64)))
        let call = try pushedCall(
            callID: CallID(String(repeating: "c", count: 64))!, media: many(32), name: many(256),
            avatarURL: many(512)
        ).call
        let device = DeviceAddress(userID: user, deviceID: DeviceID(String(repeating: "d", count: 64))!)
        let settings = PushSettings(publicURL: "https://" + String(repeating: "h", count: 504), apps: [:])
        let key = try #require(
            RingKey.text(secret: [], callID: call.callID, user: user, device: device.deviceID, invitation: 1 << 30))
        let longest = PushContent(
            .missed, of: call, to: try #require(call.member(bob)),
            said: .init(title: many(2_048), content: many(2_048), payload: many(2_048)), texts: PushTexts(),
            check: settings.check(call.callID, device, key: key))
        #expect(APNs.body(longest, isVoIP: false).count <= 4_096)
        #expect(APNs.body(longest, isVoIP: true).count <= 5_120)
        #expect(FCM.trimmed(longest, hasNotification: true).content.json.count <= 4_096)
        #expect(longest.trimmed(to: WebPushEncryption.mostBytes) { $0.json.count }.json.count <= 3_993)
    }

    // MARK: Names of pushes

    @Test func aPushThatIsSentAgainHasTheSameIDs() throws {
        let one = try push(.apns)
        #expect(try push(.apns).id == one.id && push(.apns).uuid == one.uuid)
        #expect(one.id.utf8.count == 43)
        let uuid = try #require(
            one.uuid.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/))
        #expect(!uuid.isEmpty)
        let others = [
            try push(.apnsVoIP), try push(.apns, .missed),
            OutgoingPush(registration(.apns, app: AppName("b")!), try content(), invitation: 1),
            OutgoingPush(registration(.apns), try content(), invitation: 2),
        ]
        #expect(Set(others.map(\.id) + [one.id]).count == 5)
    }

    @Test func theTopicOfACallIsOfTheAlphabetAndShort() throws {
        let topic = WebPush.topic(CallID(String(repeating: "c", count: 64))!)
        #expect(topic.wholeMatch(of: /[A-Za-z0-9_-]{1,32}/) != nil)
        #expect(topic != WebPush.topic(callID))
    }

    @Test func theRingCheckIsAskedUnderThePublicURL() {
        let device = DeviceAddress(userID: UserID("zoë&?/ =+")!, deviceID: DeviceID("a~b.c")!)
        #expect(
            providerSettings.check(callID, device, key: "1.x")
                == "https://ring.example.com/v1/ring/call-1?user=zo%C3%AB%26%3F%2F%20%3D%2B&device=a~b.c&key=1.x")
        #expect(PushSettings(publicURL: nil, apps: [:]).check(callID, device, key: "1.x") == nil)
    }
}
