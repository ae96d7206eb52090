@testable import CallCore
import CallStore
import SignalingProtocol
import Support

/// Records with arbitrary values in every field; no call would combine these values.
struct RandomRecord {
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    mutating func record() -> Record {
        switch below(8) {
        case 0: .alias(of: id(), origin: key())
        case 1: .cancelled(by: user(), at: time())
        default: .call(call())
        }
    }

    mutating func call() -> Call {
        var call = Call(
            callID: id(), mode: one(CallMode.allCases), media: maybe { $0.text(32) }, inviter: user(),
            createdAt: time(), timeout: 1 + below(600), extendedData: maybe { $0.text(2048) },
            joinPolicy: one(JoinPolicy.allCases), autoEnd: below(2) == 0,
            notReceivedAfter: maybe { Milliseconds($0.below(30_000)) },
            origin: key(), originDigest: maybe { $0.digest() })
        call.revision = below(1_000_000)
        call.state = one(BellwireCallState.allCases)
        call.acceptedAt = maybe { $0.time() }
        call.endedAt = maybe { $0.time() }
        call.endReason = maybe { $0.one(EndReason.allCases) }
        call.endedBy = maybe { $0.user() }
        call.updatedAt = time()
        call.actor = maybe { $0.user() }
        call.callerLostAt = maybe { $0.time() }
        call.heartbeatDue = maybe { $0.time() }
        call.emptySince = maybe { $0.time() }
        call.deliveryDue = maybe { $0.time() }
        call.deliveryServedAt = time()
        let count = 2 + below(11)
        while call.members.count < count {
            let member = member()
            if call.entry(member.userID) == nil { call.members.append(member) }
        }
        call.outcomes = (0..<below(20)).map { _ in outcome() }
        call.pushTexts = (0..<below(3)).map { _ in
            InvitationTexts(
                invitation: below(100),
                Request.Push(
                    title: maybe { $0.text(2048) }, content: maybe { $0.text(2048) }, payload: maybe { $0.text(2048) },
                    missed: maybe {
                        .init(title: $0.maybe { $0.text(2048) }, content: $0.maybe { $0.text(2048) })
                    }))
        }
        return call
    }

    private mutating func member() -> Member {
        var member = Member(userID: user(), state: one(MemberState.allCases), updatedAt: time())
        member.name = maybe { $0.text(256) }
        member.avatarURL = maybe { $0.text(512) }
        member.device = maybe { $0.device() }
        member.invitedBy = maybe { $0.user() }
        member.expiresAt = maybe { $0.time() }
        member.reason = maybe { $0.text(256) }
        member.extendedData = maybe { $0.text(2048) }
        member.invitedRevision = below(100)
        member.changedRevision = below(100)
        member.handledRevision = below(100)
        member.notReceivedAt = maybe { $0.time() }
        member.hasResponded = below(2) == 0
        member.isWithheld = below(4) == 0
        member.mayBePushed = below(2) == 0
        member.ownInvitedAt = maybe { $0.time() }
        return member
    }

    private mutating func outcome() -> RequestOutcome {
        RequestOutcome(
            key: key(), type: one(["call.invite", "call.end"]), digest: maybe { $0.digest() },
            offline: maybe { random in (0..<random.below(4)).map { _ in random.user() } },
            errors: (0..<below(3)).map { _ in UserError(userID: user(), code: one(ErrorCode.all)) },
            merged: below(2) == 0)
    }

    private mutating func key() -> RequestKey {
        RequestKey(
            device: DeviceAddress(userID: user(), deviceID: device()), requestID: RequestID("r-\(below(1000))")!)
    }

    private mutating func digest() -> Int64 { one([.min, .max, 0, -1, Int64(bitPattern: random.next())]) }

    mutating func id() -> CallID { CallID("call-\(below(1000))")! }
    private mutating func device() -> DeviceID { DeviceID("d.\(below(100))~")! }

    private mutating func user() -> UserID { UserID(text(64)) ?? UserID("nobody")! }

    /// Text that JSON, SQL and Unicode treat in special ways, of at most `maxBytes`.
    private mutating func text(_ maxBytes: Int) -> String {
        let pieces = [
            "a", "ü", "u\u{308}", "\u{0}", "\u{1F}", "\u{7F}", "\"", "\\", "/", "'", "\n", "\r\n", "\u{2028}", "😀",
            "\u{FEFF}", "%", "null", "{}", "\u{D7FF}", "\u{E000}", "\u{10FFFD}", "漢",
        ]
        var text = ""
        for _ in 0..<below(20) {
            let piece = one(pieces)
            if text.utf8.count + piece.utf8.count <= maxBytes { text += piece }
        }
        return text
    }

    /// Returns a time, sometimes the least or the largest time that a record may hold.
    private mutating func time() -> Milliseconds {
        one([0, 1, 1 << 53 - 1, 1 << 53, 1_790_000_000_000 + Milliseconds(below(100_000))])
    }

    private mutating func maybe<Value>(_ value: (inout RandomRecord) -> Value) -> Value? {
        below(2) == 0 ? value(&self) : nil
    }

    private mutating func one<Value>(_ values: [Value]) -> Value { values[below(values.count)] }

    private mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
}
