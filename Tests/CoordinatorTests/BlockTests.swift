import CallCore
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// Blocked users learn nothing of the block (docs/protocol.md, section 2).
struct BlockTests {
    private let bob = UserID("bob")!

    /// Returns the messages that alice and carol are sent while `act` goes on, in two cases: bob is online and has
    /// blocked alice, or bob went offline just now or longer ago than the expiry of presence.
    private func views(
        awayFor away: Int, _ act: (World, Phone) -> Void
    ) -> (blocked: [String], absent: [String], bob: [Published]) {
        var seen: [[String]] = []
        var toBob: [Published] = []
        for isBlocked in [true, false] {
            let world = World()
            let alice = world.phone("alice/phone")
            let carol = world.phone("carol/phone")
            let phone = world.phone("bob/phone")
            if isBlocked {
                let answer = phone.request(
                    .userBlock(.init(userID: alice.user, isBlocked: true)), id: RequestID("block"))
                #expect(answer == .answer(.blocked([alice.user])))
            } else {
                phone.logOut()
            }
            for _ in 0..<away / 250 {
                world.pass(seconds: 250)
                for online in isBlocked ? [alice, carol, phone] : [alice, carol] { online.republishPresence() }
            }
            _ = world.memory.clean(limit: 100)
            let start = world.published.count
            act(world, alice)
            let published = world.published[start...]
            seen.append(
                published.filter { !$0.topic.hasPrefix("bob") }.map {
                    "\($0.at) \($0.topic) \(String(decoding: $0.payload, as: UTF8.self))"
                })
            if isBlocked { toBob = published.filter { $0.topic.hasPrefix("bob") } }
        }
        return (seen[0], seen[1], toBob)
    }

    private func expectSame(_ blocked: [String], _ absent: [String]) {
        #expect(blocked.count == absent.count)
        let first = zip(blocked, absent).first { $0 != $1 }
        #expect(first == nil)
    }

    @Test(arguments: [CallMode.common, .advanced], [0, 750])
    func toWhoIsBlockedItIsAsIfTheUserWereNotThere(_ mode: CallMode, away: Int) {
        let (blocked, absent, toBob) = views(awayFor: away) { world, alice in
            alice.request(.userQuery(.init(userIDs: [bob])))
            alice.invite("bob", mode: mode) { invite in
                invite.notReceivedCheck = true
                invite.ifBusy = .reject
                invite.timeout = 20
            }
            world.pass(seconds: 8)
            alice.request(.trace(.init(callID: CallID("c")!)))
            world.pass(seconds: 30)
            alice.get()
            alice.request(.trace(.init(callID: CallID("c")!)))
            alice.cancel()
            alice.invite("bob", callID: "d", mode: mode)
            let signal = Request.Signal(callID: CallID("d")!, to: [bob], data: JSONText("1")!)
            alice.request(.signal(signal))
            alice.cancel("d")
            alice.cancel("d")
            alice.request(.message(.init(to: bob, data: JSONText("1")!, ttl: 5)))
            world.pass(seconds: 10)
            alice.request(.query(.init()))
        }
        expectSame(blocked, absent)
        #expect(toBob.isEmpty)
    }

    @Test(arguments: [0, 750]) func inAGroupTheOthersRing(away: Int) {
        let (blocked, absent, toBob) = views(awayFor: away) { world, alice in
            alice.invite("carol", "bob", mode: .advanced)
            world.phones[1].accept()
            world.pass(seconds: 5)
            for to in [nil, [bob]] {
                alice.request(.signal(.init(callID: CallID("c")!, to: to, data: JSONText("1")!)))
            }
            alice.cancel("c", invitees: ["bob"])
            alice.add("bob")
            world.pass(seconds: 70)
            alice.add("bob")
            alice.end()
            world.pass(seconds: 70)
        }
        expectSame(blocked, absent)
        #expect(toBob.isEmpty)
    }

    @Test func whoHasBlockedSeesNothingOfTheCall() {
        let world = World()
        let alice = world.phone("alice/phone")
        let phone = world.phone("bob/phone")
        phone.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.invite("bob", mode: .advanced)
        let stranger = world.phone("erin/phone")
        for user in [phone, stranger] {
            #expect(user.get()?.code == .callNotFound)
            #expect(user.accept()?.code == .callNotFound)
            #expect(user.reject()?.code == .callNotFound)
            #expect(user.join()?.code == .callNotFound)
            #expect(user.quit()?.code == .callNotFound)
            #expect(user.end()?.code == .callNotFound)
            #expect(user.add("erin2")?.code == .callNotFound)
            #expect(user.cancel()?.code == .callNotFound)
            user.ack(1)
            user.heartbeat()
        }
        #expect(alice.get()?.call?.state(of: "bob") == .inviting)
        #expect(phone.request(.query(.init())) == .answer(.calls([], cursor: "0")))
        phone.logOut()
        phone.comeOnline()
        #expect(phone.welcomes.last?.calls == [] && phone.events.isEmpty)
        // The withheld invitation makes the user neither busy nor a member of a call with the blocked user.
        let carol = world.phone("carol/phone")
        #expect(carol.invite("bob", callID: "e") { $0.ifBusy = .reject }?.call?.state(of: "bob") == .inviting)
        #expect(phone.invite("alice", callID: "f") { $0.glare = .merge }?.success?.merged == false)
    }

    /// A user who was rung before knows of the call. With the next invitation the user forgets the call, and the
    /// timeline tells nothing of the user's devices.
    @Test func whoIsInvitedAgainAfterBlockingForgetsTheCall() throws {
        let world = World()
        let alice = world.phone("alice/phone")
        let carol = world.phone("carol/phone")
        let phone = world.phone("bob/phone")
        alice.invite("carol", "bob", mode: .advanced) { $0.timeout = 5 }
        carol.accept()
        world.pass(seconds: 6)
        #expect(alice.get()?.call?.state(of: "bob") == .timeout)
        phone.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.add("bob")
        let before = phone.events.count
        phone.comeOnline(as: "again")
        #expect(phone.welcomes.last?.calls == [])
        #expect(phone.events.dropFirst(before).map(\.name) == [])
        #expect(phone.request(.query(.init())) == .answer(.calls([], cursor: "0")))
        let entries = try #require(alice.request(.trace(.init(callID: CallID("c")!)))?.success?.timeline?.entries)
        let told = entries.suffix(4).filter { entry in
            if case .presence(let device, _) = entry.step { device.userID == bob } else { false }
        }
        #expect(told.isEmpty)
        alice.end()
        #expect(phone.request(.query(.init())) == .answer(.calls([], cursor: "0")))
    }

    @Test func afterwardsTheyMeetAgain() {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        let phone = world.phone("bob/phone")
        phone.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.invite("bob")
        #expect(phone.invite("alice", callID: "own")?.call?.state(of: "alice") == .inviting, "the other way is free")
        #expect(phone.request(.userBlockList) == .answer(.blocked([alice.user])))
        #expect(phone.request(.userBlock(.init(userID: alice.user, isBlocked: false))) == .answer(.blocked([])))
        #expect(phone.events.filter { $0.name == .invited }.isEmpty, "what was withheld stays withheld")
        alice.invite("bob", callID: "d")
        #expect(phone.events.last?.name == .invited)
        #expect(phone.request(.userBlockList) == .answer(.blocked([])))
    }

    @Test func theListHasItsBounds() {
        let world = World()
        let phone = world.phone("bob/phone")
        #expect(phone.request(.userBlock(.init(userID: bob, isBlocked: true)))?.code == .badRequest)
        for number in 0..<Limits.blockedUsers {
            phone.request(.userBlock(.init(userID: UserID("u\(number)")!, isBlocked: true)))
        }
        #expect(phone.request(.userBlock(.init(userID: UserID("more")!, isBlocked: true)))?.code == .tooLarge)
        let again = phone.request(.userBlock(.init(userID: UserID("u0")!, isBlocked: true)))
        #expect(again?.code == nil)
    }

    /// Under `joinPolicy: anyone` the call is open to all, and so to a user from whom its invitation was withheld.
    @Test func aCallThatIsOpenToAllIsOpen() {
        let world = World()
        let alice = world.phone("alice/phone")
        let phone = world.phone("bob/phone")
        phone.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.invite("bob", mode: .advanced) { $0.joinPolicy = .anyone }
        #expect(phone.join()?.call?.state(of: "bob") == .accepted)
        #expect(phone.get()?.call?.state == .active)
        alice.end()
        #expect(phone.events.last?.name == .ended)
    }
}
