import SignalingProtocol
import Testing

@testable import BellwireClientCore

@Suite struct ReportedMembersTests {
    private func call(_ state: MemberState, expiresAt: Int64? = nil, updatedAt: Int64 = 0) -> CallSnapshot {
        var call = BellwireClientTests.call(1)
        call.members = call.members.filter { $0.userID == bob }
        call.members[0].state = state
        call.members[0].expiresAt = expiresAt
        call.members[0].updatedAt = updatedAt
        return call
    }

    private func news(_ members: inout ReportedMembers, _ call: CallSnapshot) -> [MemberState] {
        members.news(in: call).map(\.state)
    }

    @Test func aMemberIsNewsOncePerState() {
        var members = ReportedMembers()
        #expect(news(&members, call(.inviting, expiresAt: 5)) == [.inviting])
        #expect(news(&members, call(.inviting, expiresAt: 5, updatedAt: 9)).isEmpty)
        #expect(news(&members, call(.accepted)) == [.accepted])
        #expect(news(&members, call(.accepted, updatedAt: 9)).isEmpty)
        #expect(members[bob]?.state == .accepted)
        #expect(members[carol] == nil)
    }

    @Test func anotherInvitationIsNewsAlsoWhenTheChangesInBetweenWereMissed() {
        var members = ReportedMembers()
        #expect(news(&members, call(.inviting, expiresAt: 5)) == [.inviting])
        #expect(news(&members, call(.inviting, expiresAt: 6)) == [.inviting])
        #expect(members[bob]?.expiresAt == 6)
        #expect(news(&members, call(.quit, expiresAt: 6)) == [.quit])
        #expect(news(&members, call(.quit, expiresAt: 7)).isEmpty, "nobody is invited")
    }

    @Test func aNotedMemberIsNoNews() throws {
        var members = ReportedMembers()
        members.note(try #require(call(.accepted).member(bob)))
        #expect(news(&members, call(.accepted)).isEmpty)
        #expect(news(&members, call(.quit)) == [.quit])
    }
}
