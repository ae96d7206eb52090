import CallCore
import FuzzEntries
import CallStore
import SignalingProtocol
import Testing

/// The promises of every store about acks and heartbeats, which are merged beside the calls.
@Suite struct NoteTests {
    private let id = CallID("a")!

    private func ack(_ device: DeviceAddress, _ session: String, _ revision: Int) -> Note {
        .ack(id, DeviceAck(device: device, session: session, revision: revision))
    }

    private func heard(_ user: UserID, _ at: Milliseconds) -> Note { .heard(id, UserHeard(userID: user, at: at)) }

    @Test(arguments: StoreKind.allCases)
    func notesAreLoadedWithTheCallAndLeaveItsVersion(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.store.note([ack(alicePhone, "s1", 3), heard(bob, 500), ack(bobPhone, "", 1)])
        let stored = try #require(try test.load("a"))
        #expect(stored.version == 1)
        #expect(
            stored.acks == [
                DeviceAck(device: alicePhone, session: "s1", revision: 3),
                DeviceAck(device: bobPhone, session: "", revision: 1),
            ])
        #expect(stored.heard == [UserHeard(userID: bob, at: 500)])
        #expect(try test.write(call("a"), over: 1) == .committed(version: 2), "they never conflict")
        #expect(try test.load("a")?.acks.count == 2)
    }

    /// More notes than a command of a script takes, and a device twice among them.
    @Test(arguments: StoreKind.allCases)
    func manyNotesAtOnceAreAllKept(kind: StoreKind) throws {
        let test = try kind.open()
        let users = (0..<2_500).map { UserID("u\($0)")! }
        try test.write(call("a")) { $0.notes = [ack(alicePhone, "s1", 3)] + users.map { heard($0, 5) } }
        #expect(try test.load("a")?.heard.count == users.count)
        try test.store.note([ack(alicePhone, "s1", 5)] + users.map { heard($0, 6) } + [ack(alicePhone, "s1", 4)])
        let stored = try #require(try test.load("a"))
        #expect(stored.heard.map(\.at) == [Milliseconds](repeating: 6, count: users.count))
        #expect(stored.acks == [DeviceAck(device: alicePhone, session: "s1", revision: 5)])
    }

    @Test(arguments: StoreKind.allCases)
    func theHigherRevisionOfASessionWinsInAnyOrder(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.store.note([ack(alicePhone, "s1", 3), ack(alicePhone, "s1", 2)])
        try test.store.note([ack(alicePhone, "s1", 5)])
        try test.store.note([ack(alicePhone, "s1", 4)])
        #expect(try test.load("a")?.acks == [DeviceAck(device: alicePhone, session: "s1", revision: 5)])
    }

    @Test(arguments: StoreKind.allCases)
    func aNewSessionsAckReplacesTheOldOnesHoweverHigh(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.store.note([ack(alicePhone, "s1", 9), ack(alicePhone, "s2", 1)])
        #expect(try test.load("a")?.acks == [DeviceAck(device: alicePhone, session: "s2", revision: 1)])
    }

    @Test(arguments: StoreKind.allCases)
    func eachDeviceHasItsOwnAck(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.store.note([ack(alicePhone, "s", 3), ack(aliceWeb, "s", 2)])
        #expect(try test.load("a")?.acks.map(\.revision) == [3, 2])
    }

    @Test(arguments: StoreKind.allCases)
    func theLaterTimeOfAHeartbeatWins(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.store.note([heard(alice, 500), heard(alice, 400), heard(bob, 100)])
        try test.store.note([heard(bob, 200), heard(alice, 450)])
        #expect(try test.load("a")?.heard == [UserHeard(userID: alice, at: 500), UserHeard(userID: bob, at: 200)])
    }

    @Test(arguments: StoreKind.allCases)
    func notesWrittenWithACommitAreKept(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a")) { $0.notes = [ack(alicePhone, "s", 1), heard(alice, 7)] }
        let stored = try #require(try test.load("a"))
        #expect(stored.acks == [DeviceAck(device: alicePhone, session: "s", revision: 1)])
        #expect(stored.heard == [UserHeard(userID: alice, at: 7)])
    }

    @Test(arguments: StoreKind.allCases)
    func notesOfACallThatDoesNotExistAreForgotten(kind: StoreKind) throws {
        let test = try kind.open()
        try test.store.note([ack(alicePhone, "s", 3), heard(alice, 5)])
        #expect(try test.load("a") == nil)
        try test.write(call("a"))
        #expect(try test.load("a")?.acks.isEmpty == true)
        #expect(try test.load("a")?.heard.isEmpty == true)
    }

    // MARK: Pushes

    private func push(
        _ device: DeviceAddress, _ platform: PushPlatform, _ invitation: Int, ring: PushState.Phase? = nil,
        stop: PushState.Phase? = nil, missed: PushState.Phase? = nil, target: String? = nil,
        wasRungElsewhere: Bool = false
    ) -> PushState {
        PushState(
            PushRegistration.Key(device, .standard, platform), invitation: invitation, ring: ring, stop: stop,
            missed: missed, target: target, wasRungElsewhere: wasRungElsewhere)
    }

    @Test(arguments: StoreKind.allCases)
    func howFarPushesAreIsKeptForEachRegistration(kind: StoreKind) throws {
        let test = try kind.open()
        let states = [
            push(alicePhone, .apns, 1, missed: .over), push(alicePhone, .fcm, 2, ring: .trying, stop: .sent),
            push(aliceWeb, .fcm, 1, ring: .sent, stop: .over, missed: .trying),
            push(bobPhone, .apns, 1, ring: .sent, target: "aB-_0123456789xy"),
            push(bobPhone, .fcm, 1, stop: .sent, target: "t", wasRungElsewhere: true), push(bobPhone, .webPush, 1),
        ]
        try test.write(call("a")) { $0.notes = [.push(id, states[1])] }
        try test.store.note([3, 5, 0, 2, 4].map { .push(id, states[$0]) })
        #expect(try test.load("a")?.pushes == states)
        #expect(try test.load("a")?.version == 1)
        #expect(try test.load("a")?.acks.isEmpty == true)
    }

    @Test(arguments: StoreKind.allCases)
    func theStateOfAPushReplacesTheFormerButNotThatOfALaterInvitation(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        for state in [push(bobPhone, .fcm, 2, ring: .trying), push(bobPhone, .fcm, 2, ring: .sent, missed: .trying)] {
            try test.store.note([.push(id, state)])
            #expect(try test.load("a")?.pushes == [state])
        }
        try test.store.note([.push(id, push(bobPhone, .fcm, 2))])
        #expect(try test.load("a")?.pushes == [push(bobPhone, .fcm, 2)])
        try test.store.note([.push(id, push(bobPhone, .fcm, 10, ring: .trying))])
        try test.store.note([.push(id, push(bobPhone, .fcm, 9, ring: .sent))])
        #expect(try test.load("a")?.pushes == [push(bobPhone, .fcm, 10, ring: .trying)])
    }

    @Test(arguments: StoreKind.allCases)
    func ofADevicesRingChecksThatOfTheLatestInvitationStands(kind: StoreKind) throws {
        let test = try kind.open()
        try test.store.note([.ringCheck(id, RingCheck(device: bobPhone, invitation: 1))])
        try test.write(call("a"))
        let checks = [(bobPhone, 2), (bobPhone, 10), (bobPhone, 9), (aliceWeb, 1), (alicePhone, 3)]
        try test.store.note(checks.map { .ringCheck(id, RingCheck(device: $0.0, invitation: $0.1)) })
        #expect(
            try test.load("a")?.checks
                == [(alicePhone, 3), (aliceWeb, 1), (bobPhone, 10)].map { RingCheck(device: $0.0, invitation: $0.1) })
    }
}
