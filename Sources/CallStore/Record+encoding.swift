import CallCore
import SignalingProtocol

/// The stored form of a record: JSON with short names, readable for an operator. This file encodes;
/// Record+decoding.swift decodes.
package enum RecordCodec {
    package static func encode(_ record: Record) -> [UInt8] {
        JSONWriter.object(capacity: 768) { writer in
            switch record {
            case .call(let call): encode(call, to: &writer)
            case .message(let message): encode(message, to: &writer)
            case .alias(let callID, let origin):
                writer.field("alias", callID.string)
                writer.object("origin") { encode(origin, to: &$0) }
            case .cancelled(let user, let at):
                writer.field("cancelledBy", user.string)
                writer.field("at", at)
            case .void: writer.field("void", true)
            case .unreadable: preconditionFailure("a record that cannot be read is never written")
            }
        }
    }

    private static func encode(_ call: Call, to writer: inout JSONWriter) {
        writer.field("rev", call.revision)
        writer.field("mode", call.mode.rawValue)
        writer.field("state", call.state.rawValue)
        writer.field("media", call.media)
        writer.field("inviter", call.inviter.string)
        writer.field("created", call.createdAt)
        writer.field("accepted", call.acceptedAt)
        writer.field("ended", call.endedAt)
        writer.field("endReason", call.endReason?.rawValue)
        writer.field("endedBy", call.endedBy?.string)
        writer.field("timeout", call.timeout)
        writer.field("data", call.extendedData)
        if call.joinPolicy != .invited { writer.field("join", call.joinPolicy.rawValue) }
        if !call.autoEnd { writer.field("autoEnd", false) }
        writer.field("notReceivedAfter", call.notReceivedAfter)
        writer.field("updated", call.updatedAt)
        writer.field("actor", call.actor?.string)
        writer.object("origin") { writer in
            encode(call.origin, to: &writer)
            writer.field("digest", call.originDigest)
        }
        writer.field("callerLostAt", call.callerLostAt)
        writer.field("heartbeatDue", call.heartbeatDue)
        writer.field("emptySince", call.emptySince)
        writer.field("deliveryDue", call.deliveryDue)
        writer.field("deliveryServed", call.deliveryServedAt)
        writer.array("members") { writer in
            for member in call.members { writer.object { encode(member, to: &$0) } }
        }
        writer.array("outcomes") { writer in
            for outcome in call.outcomes { writer.object { encode(outcome, to: &$0) } }
        }
        guard !call.pushTexts.isEmpty else { return }
        writer.array("pushes") { writer in
            for texts in call.pushTexts { writer.object { encode(texts, to: &$0) } }
        }
    }

    /// The data stands as a JSON string, so that exactly its bytes are kept.
    private static func encode(_ message: PeerMessage, to writer: inout JSONWriter) {
        writer.object("origin") { writer in
            encode(message.origin, to: &writer)
            writer.field("digest", message.digest)
        }
        writer.field("created", message.createdAt)
        writer.field("expires", message.expiresAt)
        writer.field("seq", message.seq)
        writer.field("stream", message.stream)
        writer.field("data", message.data?.description)
        writer.field("state", message.state.rawValue)
        writer.field("finished", message.finishedAt)
        writer.field("served", message.servedAt)
        writer.field("receiptDue", message.receiptDue)
        if message.isWithheld { writer.field("withheld", true) }
    }

    private static func encode(_ key: RequestKey, to writer: inout JSONWriter) {
        writer.field("user", key.device.userID.string)
        writer.field("device", key.device.deviceID.string)
        writer.field("id", key.requestID.string)
    }

    private static func encode(_ member: Member, to writer: inout JSONWriter) {
        writer.field("user", member.userID.string)
        writer.field("name", member.name)
        writer.field("avatar", member.avatarURL)
        writer.field("state", member.state.rawValue)
        writer.field("device", member.device?.string)
        writer.field("by", member.invitedBy?.string)
        writer.field("expires", member.expiresAt)
        writer.field("updated", member.updatedAt)
        writer.field("reason", member.reason)
        writer.field("data", member.extendedData)
        writer.field("invitedRev", member.invitedRevision)
        writer.field("changedRev", member.changedRevision)
        writer.field("handledRev", member.handledRevision)
        if member.isHandledByCheck { writer.field("byCheck", true) }
        writer.field("notReceivedAt", member.notReceivedAt)
        if member.hasResponded { writer.field("responded", true) }
        if member.isWithheld { writer.field("withheld", true) }
        if member.mayBePushed { writer.field("push", true) }
        writer.field("invitedAt", member.ownInvitedAt)
    }

    private static func encode(_ texts: InvitationTexts, to writer: inout JSONWriter) {
        writer.field("rev", texts.invitation)
        writer.field("title", texts.push.title)
        writer.field("content", texts.push.content)
        writer.field("payload", texts.push.payload)
        guard let missed = texts.push.missed else { return }
        writer.object("missed") { writer in
            writer.field("title", missed.title)
            writer.field("content", missed.content)
        }
    }

    private static func encode(_ outcome: RequestOutcome, to writer: inout JSONWriter) {
        encode(outcome.key, to: &writer)
        writer.field("type", outcome.type)
        writer.field("digest", outcome.digest)
        if let offline = outcome.offline {
            writer.array("offline") { writer in
                for user in offline { writer.string(user.string) }
            }
        }
        if !outcome.errors.isEmpty {
            writer.array("errors") { writer in
                for error in outcome.errors {
                    writer.object { writer in
                        writer.field("user", error.userID.string)
                        writer.field("code", error.code.rawValue)
                    }
                }
            }
        }
        if outcome.merged { writer.field("merged", true) }
    }
}
