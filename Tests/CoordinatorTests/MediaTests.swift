import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Support
import Testing

/// Media sessions in responses and welcomes (docs/protocol.md, Media sessions).
struct MediaTests {
    private let use = MediaUse([("video", "sfu"), ("data", "own")], other: "meet")

    /// Returns a world whose media servers make tokens that name the user and the time.
    private func world(coordinators: Int = 1, _ use: MediaUse? = nil) -> World {
        var settings = ServiceSettings()
        let use = use ?? self.use
        settings.media = use
        let world = World(coordinators: coordinators, settings)
        var made = 0
        for service in world.services {
            service.mediaSession = { member, _ in
                guard let server = use.server(for: member.media) else { return nil }
                made += 1
                return BellwireMediaSession(
                    server: server, type: "jwt", url: "https://m.example", room: member.callID.string,
                    token: "SECRET-\(member.device)-\(made)", expiresAt: 1)
            }
        }
        return world
    }

    private func token(_ outcome: Response.Outcome?) -> String? { outcome?.success?.mediaSession?.token }

    private func media(_ phone: Phone, _ callID: String = "c") -> Response.Outcome? {
        phone.request(.media(.init(callID: CallID(callID)!)))
    }

    @Test func inviterAnswererAndJoinerGetSessions() {
        let world = world()
        let (alice, bob, carol) = (world.phone("alice/phone"), world.phone("bob/phone"), world.phone("carol/tab"))
        let invited = alice.invite("bob", mode: .advanced) {
            $0.media = "video"
            $0.joinPolicy = .anyone
        }
        #expect(invited?.success?.mediaSession?.server == "sfu")
        #expect(invited?.success?.mediaSession?.room == "c")
        #expect(token(invited) == "SECRET-alice/phone-1")
        #expect(token(bob.accept()) == "SECRET-bob/phone-2")
        #expect(token(carol.join()) == "SECRET-carol/tab-3")
    }

    @Test func aRepeatedRequestGetsANewToken() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        let id = RequestID("again")!
        #expect(token(alice.invite("bob", id: id, mode: .advanced)) == "SECRET-alice/phone-1")
        #expect(token(alice.invite("bob", id: id, mode: .advanced)) == "SECRET-alice/phone-2")
        #expect(token(bob.accept(id: id)) == "SECRET-bob/phone-3")
        #expect(token(bob.accept(id: id)) == "SECRET-bob/phone-4")
        alice.end()
        #expect(token(bob.accept(id: id)) == nil, "the call is over by then")
    }

    @Test func theAnswerThatEndsACommonCallBringsASession() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob")
        let id = RequestID("accept")!
        let accepted = bob.accept(id: id)
        #expect(accepted?.call?.state == .ended)
        #expect(token(accepted) == "SECRET-bob/phone-2")
        world.pass(seconds: 60)
        #expect(token(bob.accept(id: id)) == "SECRET-bob/phone-3")
        #expect(token(media(alice)) == "SECRET-alice/phone-4")
        world.pass(1)
        #expect(token(bob.accept(id: id)) == nil)
        #expect(media(alice)?.error?.code == .callEnded)
        #expect(media(alice)?.error?.state == "accepted")
    }

    @Test func aCommonCallThatEndsOtherwiseBringsNoSession() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        let id = RequestID("invite")!
        alice.invite("bob", id: id)
        bob.reject()
        #expect(token(alice.invite("bob", id: id)) == nil)
        #expect(media(alice)?.code == .callEnded)
        #expect(media(bob)?.code == .callEnded)
    }

    @Test func aMergedInvitationIsAnAnswer() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob", callID: "a", mode: .advanced) { $0.glare = .merge }
        let merged = bob.invite("alice", callID: "b", mode: .advanced) { $0.glare = .merge }
        #expect(merged?.success?.merged == true)
        #expect(merged?.success?.mediaSession?.room == "a")
        #expect(media(bob, "b")?.success?.mediaSession?.room == "a", "by its own name of the call")
    }

    @Test func theRefusalsOfMediaStandInTheirOrder() {
        let world = world(MediaUse([("video", "sfu")], other: nil))
        let (alice, bob, tablet) = (world.phone("alice/phone"), world.phone("bob/phone"), world.phone("bob/tablet"))
        let mallory = world.phone("mallory/phone")
        #expect(media(alice)?.code == .callNotFound)
        alice.invite("bob", mode: .advanced) { $0.media = "voice" }
        #expect(media(mallory)?.code == .callNotFound)
        #expect(media(bob)?.code == .invalidState, "before noMedia")
        #expect(media(bob)?.error?.state == "received")
        bob.accept()
        #expect(media(tablet)?.code == .invalidState)
        #expect(media(bob)?.code == .noMedia)
        #expect(token(alice.join()) == nil)
        alice.end()
        #expect(media(bob)?.code == .callEnded, "before noMedia")
        #expect(media(tablet)?.code == .callEnded, "before invalidState")
        #expect(media(mallory)?.code == .callNotFound, "before callEnded")
    }

    @Test func withoutMediaServersThereIsNoMedia() {
        let world = World()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        #expect(token(alice.invite("bob", mode: .advanced)) == nil)
        #expect(token(bob.accept()) == nil)
        #expect(media(bob)?.code == .noMedia)
        bob.comeOnline()
        #expect(bob.welcomes.last?.mediaSessions == [])
    }

    @Test func aWelcomeHasTheSessionsOfThisVeryDevice() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob", mode: .advanced)
        bob.comeOnline()
        #expect(bob.welcomes.last?.mediaSessions == [], "it rings")
        bob.accept()
        let tablet = world.phone("bob/tablet")
        #expect(tablet.welcomes.last?.mediaSessions == [])
        bob.comeOnline()
        #expect(bob.welcomes.last?.mediaSessions.map(\.callID) == [callID])
        #expect(bob.welcomes.last?.mediaSessions.map(\.session.server) == ["meet"])
        tablet.join()
        bob.comeOnline()
        tablet.comeOnline()
        #expect(bob.welcomes.last?.mediaSessions == [], "the call has moved")
        #expect(tablet.welcomes.last?.mediaSessions.map(\.callID) == [callID])
        alice.end()
        tablet.comeOnline()
        #expect(tablet.welcomes.last?.mediaSessions == [])
    }

    @Test func aWelcomeThatWouldBeTooLargeLeavesSessionsOut() throws {
        var settings = ServiceSettings()
        settings.media = use
        settings.calls.oneActiveCall = false
        let world = World(settings)
        world.service.mediaSession = { member, _ in
            BellwireMediaSession(
                server: "meet", type: "jwt", url: "https://m", room: member.callID.string,
                token: String(repeating: "t", count: 15_000), expiresAt: 1)
        }
        let bob = world.phone("bob/phone")
        for number in 1...30 {
            world.phone("alice\(number)/phone").invite("bob", callID: "c\(number)", mode: .advanced)
            #expect(bob.accept("c\(number)")?.success?.mediaSession != nil)
        }
        bob.comeOnline()
        let welcome = try #require(bob.welcomes.last)
        #expect(welcome.calls.count == 30 && welcome.omittedCalls == 0)
        #expect((10..<20).contains(welcome.mediaSessions.count), "\(welcome.mediaSessions.count)")
        let told = Set(welcome.mediaSessions.map(\.callID))
        #expect(told.isSubset(of: welcome.calls.map(\.callID)))
        let left = try #require(welcome.calls.first { !told.contains($0.callID) })
        #expect(media(bob, left.callID.string)?.success?.mediaSession != nil)
    }

    @Test func theBackendGetsTheSessionsOfItsUsers() {
        let world = world()
        let (alice, bot) = (world.phone("alice/phone"), world.stranger("bot/server"))
        alice.invite("bot", mode: .advanced)
        #expect(token(bot.accept()) == "SECRET-bot/server-2")
        #expect(token(media(bot)) == "SECRET-bot/server-3")
    }

    /// Only responses and welcomes have tokens. Other messages, the store and the timeline have none.
    @Test func aTokenStandsNowhereElse() throws {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        world.memory.keep([
            KeptEndpoint(name: EndpointName("app")!, patterns: "*", url: "https://app.example/"),
            KeptEndpoint(name: EndpointName.rooms(of: "meet")!, patterns: "room:*", url: "https://sfu.example"),
        ])
        world.pass(seconds: 2)
        alice.invite("bob", mode: .advanced)
        bob.accept()
        alice.comeOnline()
        #expect(token(media(bob)) != nil)
        bob.quit()
        world.pass(seconds: 1)
        let marked = world.published.filter { String(decoding: $0.payload, as: UTF8.self).contains("SECRET") }
        #expect(marked.count == 4)
        #expect(marked.allSatisfy { $0.event == nil })
        let timeline = try #require(alice.request(.trace(.init(callID: callID)))?.success?.timeline)
        let told = timeline.entries.compactMap { entry in
            if case .media(let device, let server) = entry.step { "\(device) \(server)" } else { nil }
        }
        #expect(told == ["alice/phone meet", "bob/phone meet", "alice/phone meet", "bob/phone meet"])
        for entry in timeline.entries { #expect(!String(decoding: entry.encoded(), as: UTF8.self).contains("SECRET")) }
        for name in ["app", "rooms:meet"] {
            let worker = WorkerID(name)
            let entries = world.memory.claim(EndpointName(name)!, by: worker, limit: 10, near: nil)
            #expect(entries.count == 1)
            #expect(entries.allSatisfy { !String(decoding: $0.record, as: UTF8.self).contains("SECRET") })
        }
        #expect(!"\(try #require(world.stored(callID)))".contains("SECRET"))
    }

    @Test func sessionsAreCountedByServer() {
        let world = world()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob") { $0.media = "video" }
        bob.accept()
        #expect(world.service.counters[.mediaSessions, "sfu"] == 2)
    }

    @Test func anyCoordinatorGoesOn() {
        let world = world(coordinators: 2)
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob", mode: .advanced)
        bob.accept()
        world.kill(0)
        #expect(token(media(bob)) != nil)
        #expect(token(media(alice)) != nil)
    }

    // MARK: Rooms

    private func rooms(_ world: World, _ name: String = "rooms:meet") -> [String] {
        var told: [String] = []
        let (name, worker) = (EndpointName(name)!, WorkerID("w"))
        var entries = world.memory.claim(name, by: worker, limit: 100, near: nil)
        while !entries.isEmpty {
            told += entries.map { "\($0.id.string) \($0.number)" }
            let settled = world.memory.settle(entries.map { Settlement($0, .taken) }, by: worker)
            entries = settled.compactMap { if case .next(let entry) = $0 { entry } else { nil } }
        }
        return told.sorted()
    }

    private func worldWithRooms() throws -> World {
        let world = world()
        world.memory.keep([
            KeptEndpoint(
                name: EndpointName.rooms(of: "meet")!, patterns: use.patterns(ofRoomsAt: "meet")!,
                url: "https://sfu.example")
        ])
        world.pass(seconds: 2)
        return world
    }

    @Test func whoLeavesAndTheEndAreWrittenForTheRoom() throws {
        let world = try worldWithRooms()
        let phones = ["alice", "bob", "carol"].map { world.phone("\($0)/phone") }
        phones[0].invite("bob", "carol", mode: .advanced)
        phones[1].accept()
        phones[2].accept()
        #expect(rooms(world) == [], "nobody has left")
        phones[1].quit()
        #expect(rooms(world) == ["c \(world.stored(callID)!.revision)"])
        phones[1].join()
        #expect(rooms(world) == [])
        phones[0].end()
        #expect(rooms(world) == ["c \(world.stored(callID)!.revision)"])
    }

    @Test func silenceAndTheEndOfTheRingingAreWrittenForTheRoom() throws {
        let world = try worldWithRooms()
        let alice = world.phone("alice/phone")
        alice.invite("bob", mode: .advanced) { $0.timeout = 20 }
        world.pass(seconds: 25)
        #expect(world.stored(callID)?.endReason == .timeout)
        #expect(rooms(world) == ["c \(world.stored(callID)!.revision)"])
    }

    @Test func callsWithoutARoomThereAreNotWritten() throws {
        let world = try worldWithRooms()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob")
        bob.accept()
        alice.invite("bob", callID: "v", mode: .advanced) { $0.media = "video" }
        bob.accept("v")
        alice.end("v")
        #expect(rooms(world) == [])
        alice.invite("bob", callID: "w", mode: .advanced) { $0.media = "voice" }
        alice.cancel("w")
        #expect(rooms(world) == ["w \(world.stored(CallID("w")!)!.revision)"])
    }

    @Test(
        arguments: [
            (nil, "meet"), ("video", "sfu"), ("data", "own"), ("voice", "meet"), ("*", "meet"), ("vidéo", "meet"),
            ("vide\u{301}o", "meet"),
        ] as [(String?, String)])
    func patternsMeanWhatUseMeans(_ media: String?, _ server: String) throws {
        let invite = Request.Invite(invitees: userIDs("bob"), callID: callID, mode: .advanced, media: media)
        let world = World()
        world.phone("alice/phone").request(.invite(invite))
        let call = try #require(world.stored(callID))
        #expect(use.server(for: media) == server)
        for name in ["sfu", "own", "meet"] {
            let endpoint = KeptEndpoint(
                name: EndpointName.rooms(of: name)!, patterns: use.patterns(ofRoomsAt: name)!, url: "https://x")
            #expect(endpoint.hasRoom(of: call) == (name == server))
            #expect(!endpoint.wantsCalls && !endpoint.wantsMessages)
        }
        #expect(use.patterns(ofRoomsAt: "other") == nil)
    }
}
