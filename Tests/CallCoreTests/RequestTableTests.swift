import CallCore
import SignalingProtocol
import Testing

/// Every (mode, state, request) pair of section 3 of the protocol, allowed and refused.
///
/// A situation that cannot be reached has no line: a common call knows no `quit`, ends only when no member is pending,
/// and its invitations expire together.
@Suite struct RequestTableTests {
    /// The requests of an invitee, Bob, in each of his states. `elsewhere`: the request comes from another device than
    /// the device that took the call. `busy`: he was rejected as busy, on no device. The call goes on (`live`), was
    /// ended by `call.end` (`hungUp`), or by the end rules (`over`).
    static let invitee = TableRow.read(
        """
        mode     call   bob                accept            reject            cancel     add          join      quit         end          get
        common   live   inviting           ok                ok                notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   notYetReceived     ok                ok                notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   received           ok                ok                notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   accepted           invalidState      invalidState      notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   accepted-elsewhere answeredElsewhere answeredElsewhere notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   rejected           invalidState      invalidState      notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   rejected-elsewhere answeredElsewhere answeredElsewhere notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   busy               invalidState      invalidState      notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   cancelled          invalidState      invalidState      notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted           callEnded         callEnded         notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted-elsewhere answeredElsewhere answeredElsewhere notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   rejected           callEnded         callEnded         notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   rejected-elsewhere answeredElsewhere answeredElsewhere notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   busy               callEnded         callEnded         notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   cancelled          callEnded         callEnded         notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   timeout            callEnded         callEnded         notInviter wrongMode    wrongMode wrongMode    wrongMode    ok
        advanced live   inviting           ok                ok                notInviter invalidState ok        invalidState invalidState ok
        advanced live   notYetReceived     ok                ok                notInviter invalidState ok        invalidState invalidState ok
        advanced live   received           ok                ok                notInviter invalidState ok        invalidState invalidState ok
        advanced live   accepted           invalidState      invalidState      notInviter ok           ok        ok           ok           ok
        advanced live   accepted-elsewhere answeredElsewhere answeredElsewhere notInviter ok           ok        ok           ok           ok
        advanced live   rejected           invalidState      invalidState      notInviter invalidState ok        invalidState invalidState ok
        advanced live   rejected-elsewhere answeredElsewhere answeredElsewhere notInviter invalidState ok        invalidState invalidState ok
        advanced live   busy               invalidState      invalidState      notInviter invalidState ok        invalidState invalidState ok
        advanced live   cancelled          invalidState      invalidState      notInviter invalidState ok        invalidState invalidState ok
        advanced live   timeout            invalidState      invalidState      notInviter invalidState ok        invalidState invalidState ok
        advanced live   quit               invalidState      invalidState      notInviter invalidState ok        invalidState invalidState ok
        advanced hungUp inviting           callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp notYetReceived     callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp received           callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted           callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted-elsewhere answeredElsewhere answeredElsewhere callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp rejected           callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp rejected-elsewhere answeredElsewhere answeredElsewhere callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp busy               callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp cancelled          callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp timeout            callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp quit               callEnded         callEnded         callEnded  callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted           callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted-elsewhere answeredElsewhere answeredElsewhere notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   rejected           callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   rejected-elsewhere answeredElsewhere answeredElsewhere notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   busy               callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   cancelled          callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   timeout            callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        advanced over   quit               callEnded         callEnded         notInviter callEnded    callEnded callEnded    callEnded    ok
        """)

    @Test(arguments: invitee)
    func anInviteesRequestHasTheOutcomeOfTheTable(row: TableRow) throws {
        let (mode, call, bobs) = (row.situation[0], row.situation[1], row.situation[2])
        let scene = try Situation.invitee(mode: mode, call: call, state: bobs)
        row.check(scene, by: bob, on: bobs.hasSuffix("-elsewhere") ? web : phone)
    }

    /// The requests of the inviter, Alice, who invited Bob alone; her `cancel` names him or no invitee. `quit` in the
    /// second column: she left the call (without `autoEnd`).
    static let inviter = TableRow.read(
        """
        mode     call   alice    bob            accept            reject            cancel       add          join      quit         end          get
        common   live   accepted inviting       invalidState      invalidState      ok           wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   accepted notYetReceived invalidState      invalidState      ok           wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   accepted received       invalidState      invalidState      ok           wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted accepted       callEnded         callEnded         invalidState wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted rejected       callEnded         callEnded         invalidState wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted busy           callEnded         callEnded         invalidState wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted cancelled      callEnded         callEnded         invalidState wrongMode    wrongMode wrongMode    wrongMode    ok
        common   over   accepted timeout        callEnded         callEnded         invalidState wrongMode    wrongMode wrongMode    wrongMode    ok
        common   live   elsewhere inviting      answeredElsewhere answeredElsewhere ok           wrongMode    wrongMode wrongMode    wrongMode    ok
        advanced live   accepted inviting       invalidState      invalidState      ok           ok           ok        ok           ok           ok
        advanced live   accepted notYetReceived invalidState      invalidState      ok           ok           ok        ok           ok           ok
        advanced live   accepted received       invalidState      invalidState      ok           ok           ok        ok           ok           ok
        advanced live   accepted accepted       invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   accepted rejected       invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   accepted busy           invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   accepted cancelled      invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   accepted timeout        invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   accepted quit           invalidState      invalidState      invalidState ok           ok        ok           ok           ok
        advanced live   elsewhere inviting      answeredElsewhere answeredElsewhere ok           ok           ok        ok           ok           ok
        advanced live   quit     inviting       invalidState      invalidState      ok           invalidState ok        invalidState invalidState ok
        advanced live   quit     accepted       invalidState      invalidState      invalidState invalidState ok        invalidState invalidState ok
        advanced hungUp accepted inviting       callEnded         callEnded         callEnded    callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted received       callEnded         callEnded         callEnded    callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted accepted       callEnded         callEnded         callEnded    callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted rejected       callEnded         callEnded         callEnded    callEnded    callEnded callEnded    callEnded    ok
        advanced hungUp accepted quit           callEnded         callEnded         callEnded    callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted rejected       callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted busy           callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted cancelled      callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted timeout        callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   accepted quit           callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   quit     accepted       callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        advanced over   quit     cancelled      callEnded         callEnded         invalidState callEnded    callEnded callEnded    callEnded    ok
        """)

    @Test(arguments: inviter, [[bob], nil])
    func anInvitersRequestHasTheOutcomeOfTheTable(row: TableRow, cancelling: [UserID]?) throws {
        let scene = try Situation.inviter(
            mode: row.situation[0], call: row.situation[1], own: row.situation[2], invitee: row.situation[3])
        let device = row.situation[2] == "elsewhere" ? web : phone
        // A call that `call.end` ended refuses with the asking member's own state.
        let blamed = row.situation[1] == "hungUp" ? alice : bob
        row.check(scene, by: alice, on: device, cancelling: cancelling, blamed: blamed)
    }

    /// The requests of Eve, who was never invited.
    static let stranger = TableRow.read(
        """
        mode     call   joinPolicy accept       reject       cancel       add          join         quit         end          get
        common   live   invited    callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        common   live   anyone     callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        common   over   invited    callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        common   over   anyone     callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        advanced live   invited    callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        advanced live   anyone     callNotFound callNotFound callNotFound callNotFound ok           callNotFound callNotFound callNotFound
        advanced hungUp invited    callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        advanced hungUp anyone     callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        advanced over   invited    callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        advanced over   anyone     callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound callNotFound
        """)

    @Test(arguments: stranger)
    func aStrangersRequestHasTheOutcomeOfTheTable(row: TableRow) throws {
        let scene = try Situation.withPolicy(
            mode: row.situation[0], call: row.situation[1], joinPolicy: JoinPolicy(rawValue: row.situation[2])!)
        row.check(scene, by: eve)
    }
}
