import SignalingProtocol
import Testing

@testable import CallCore

/// The invariants of every call. For each clause a call that breaks the clause shows that the check notices the fault.
@Suite struct InvariantTests {
    /// A call with two accepted members and an invitee.
    private func call(_ mode: CallMode = .advanced) throws -> Call {
        let scene = try Scene(mode, [bob, carol])
        try scene.accept(bob)
        return scene.call
    }

    private func ended() throws -> Call {
        let scene = try Scene(.common)
        try scene.reject(bob)
        return scene.call
    }

    private func expectBroken(
        _ call: Call, _ clause: String, at location: SourceLocation = #_sourceLocation,
        _ change: (inout Call) -> Void
    ) {
        #expect(call.brokenInvariant == nil, sourceLocation: location)
        var broken = call
        change(&broken)
        #expect(broken.brokenInvariant?.contains(clause) ?? false, "\(clause)", sourceLocation: location)
    }

    @Test func itsMembersAreTheInviterAndOthersOnceEach() throws {
        expectBroken(try call(), "the inviter is the first") { $0.members.swapAt(0, 1) }
        expectBroken(try call(), "the inviter is the first") { $0.members.removeLast(2) }
        expectBroken(try call(), "a user is a member once") { $0.members.append($0.members[1]) }
    }

    @Test func itsTimesAreInOrder() throws {
        expectBroken(try call(), "before it was made") { $0.updatedAt = $0.createdAt - 1 }
        expectBroken(try call(), "changed after the call") { $0.members[1].updatedAt = $0.updatedAt + 1 }
        expectBroken(try call(), "a later revision") { $0.members[1].handledRevision = $0.revision + 1 }
    }

    @Test func itsStateFollowsFromWhatItHas() throws {
        expectBroken(try call(), "since an invitee accepted") { $0.acceptedAt = nil }
        expectBroken(try call(), "since an invitee accepted") { $0.state = .ringing }
        expectBroken(try call(), "its time and reason") { $0.endedAt = $0.updatedAt }
        expectBroken(try ended(), "its time and reason") { $0.endReason = nil }
        expectBroken(try ended(), "waits for nothing") { $0.callerLostAt = 1 }
        expectBroken(try ended(), "waits for nothing") { $0.heartbeatDue = 1 }
        expectBroken(try ended(), "nobody is pending") { $0.members[1].state = .received }
    }

    @Test func itsMembersCanBeServed() throws {
        expectBroken(try call(), "without an invitation") { $0.members[2].expiresAt = nil }
        expectBroken(try call(), "without an invitation") { $0.members[2].invitedBy = nil }
        expectBroken(try call(), "on no device") { $0.members[1].device = nil }
        expectBroken(try call(), "checked for silence") { $0.heartbeatDue = nil }
        expectBroken(try call(), "the empty call") { $0.emptySince = 1 }
        expectBroken(try call(.common), "quit a common call") { $0.members[1].state = .quit }
    }
}
