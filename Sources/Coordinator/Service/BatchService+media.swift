import CallCore
import SignalingProtocol

/// Adds media sessions to responses and welcomes (docs/protocol.md, Media sessions). A session is made here, from the
/// call as the call is now, and stands in no other message and in no record.
extension BatchService {
    /// Whether a media session is looked for. A reply is large, and is not copied without a media server.
    func mayHaveMediaSession(_ reply: borrowing Reply) -> Bool {
        reply.media == .required || reply.media == .optional && context.mediaSession != nil
    }

    /// Returns the reply with the media session of the device, if the device may have a session.
    func withMediaSession(_ reply: Reply, of call: Call) -> Reply {
        guard case .response(let id, .success(var success)) = reply.content else { return reply }
        var reply = reply
        if let session = mediaSession(of: reply.device, in: call) {
            success.mediaSession = session
            reply.content = .response(id, .success(success))
            note(session, of: reply.device, in: call)
        } else if reply.media == .required {
            // Another request of the batch has changed the call, or no token could be made.
            reply.content = .response(id, .failure(.unavailable))
        }
        return reply
    }

    /// Returns the media sessions of a device that came online, in the order of the calls.
    func mediaSessions(of device: DeviceAddress, in calls: [Call]) -> [CallMediaSession] {
        guard context.mediaSession != nil else { return [] }
        return calls.filter(\.isLive).compactMap { call in
            mediaSession(of: device, in: call).map { CallMediaSession(callID: call.callID, session: $0) }
        }
    }

    private func mediaSession(of device: DeviceAddress, in call: Call) -> BellwireMediaSession? {
        guard let make = context.mediaSession, let member = call.mediaMember(device, now: now) else { return nil }
        let session = make(member, context.wall())
        if session == nil, let server = context.settings.media?.server(for: member.media) {
            context.counters.add(.mediaSessionsFailed, server, 1)
        }
        return session
    }

    /// Counts a media session, and tells the timeline who got the session, without the token.
    func note(_ session: BellwireMediaSession, of device: DeviceAddress, in call: Call) {
        context.counters.add(.mediaSessions, session.server, 1)
        record([.media(device, server: session.server)], of: call)
    }
}
