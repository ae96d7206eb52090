import BellwireCommands
import CallCore
import CallStore
import SignalingProtocol

/// Calls that ring for a long time, written into a store as a coordinator writes calls.
enum LiveCalls {
    private static let batch = 500

    static func write(_ count: Int, into address: StoreAddress) throws {
        let store = try address.open()
        let executor = WorkExecutor()
        let now = try executor.complete(store) { () async throws(StoreError) in try await store.now() }
        for first in stride(from: 0, to: count, by: batch) {
            let numbers = first..<min(first + batch, count)
            let commits = try numbers.map { try commit($0, now: now) }
            let outcomes = try executor.complete(store) { () async throws(StoreError) in try await store.commit(commits)
            }
            guard outcomes.allSatisfy({ $0 == .committed(version: 1) }) else {
                throw DeploymentError("the live calls could not be written")
            }
        }
    }

    private static func commit(_ number: Int, now: Milliseconds) throws -> Commit {
        let caller = DeviceAddress(userID: UserID("live-a\(number)")!, deviceID: DeviceID("phone")!)
        var invite = Request.Invite(
            invitees: [UserID("live-b\(number)")!], callID: CallID("live-\(number)")!, mode: .advanced)
        invite.timeout = 600
        let key = RequestKey(device: caller, requestID: RequestID("r1")!)
        let call = try CallMachine.invited(
            CallMachine.Invitation(callID: invite.callID!, invite: invite, busy: [], isCancelled: false),
            CallMachine.Acting(key: key, now: now),
            CallMachine.Invitees(profiles: [:], unregistered: [], limited: [], withheld: [], pushable: nil),
            activeElsewhere: nil,
            settings: CallSettings()
        ).call
        // The deadline is a day away, so that no deadline falls into the measurement: the calls are only there to fill
        // the store.
        var commit = Commit(
            .call(call.callID), record: .call(call), expected: 0, deadline: now + 86_400_000, expiresAt: nil)
        commit.claims = [.activeCall(of: call.inviter), .ringing(from: call.inviter, to: invite.invitees[0])]
        commit.newMembers = call.members.map(\.userID)
        return commit
    }
}
