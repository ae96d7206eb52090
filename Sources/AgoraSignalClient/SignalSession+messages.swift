internal import BellwireClient
internal import BellwireClientCore
internal import DropInSupport
internal import Foundation
internal import SignalingProtocol

/// The messages of this user.
extension SignalSession {
    /// How long after its time limit a message's receipt may come, in milliseconds.
    private static let grace = 2_000

    private static var now: Int64 { Int64(DispatchTime.now().uptimeNanoseconds / 1_000_000) }

    func send(_ message: String, to userId: String, _ completion: Completion) {
        let timeout = audience.messageTimeout
        queue.async { [self] in
            do throws(NSError) {
                try take(message, to: userId, timeout, completion)
            } catch {
                audience.complete(completion, error)
            }
        }
    }

    private func take(_ message: String, to userId: String, _ timeout: Int, _ completion: Completion) throws(NSError) {
        guard let peer = Self.user(userId) else {
            throw SignalClientError.make(SignalClientError.invalidUserId, "sendMessage: \"\(userId)\" is not a user id")
        }
        guard client != nil else {
            throw SignalClientError.make(SignalClientError.notLoggedIn, "sendMessage: not logged in")
        }
        // The size is checked here: the service would refuse a larger message, and the peer would wait for the missing
        // message.
        let data = JSONText(string: message)
        guard data.bytes.count <= Limits.dataBytes else {
            throw SignalClientError.make(
                SignalClientError.tooLarge, "sendMessage: at most \(Limits.dataBytes) bytes, as JSON")
        }
        let messageID = SignalingClient.makeMessageID()
        let draft = Outbox.Draft(
            messageID: messageID, to: peer, data: data, deadline: Self.now + Int64(timeout) * 1_000)
        guard outbox.add(draft) else {
            throw SignalClientError.make(
                SignalClientError.tooManyMessages, "sendMessage: \(Outbox.waiting) messages wait already")
        }
        pending[messageID] = Pending(peer: peer, completion: completion)
        watch(messageID, timeout)
        sendNext()
    }

    /// Fails the message for the app when its time limit ends, or at the latest after `grace`.
    private func watch(_ messageID: MessageID, _ timeout: Int) {
        queue.asyncAfter(deadline: .now() + .seconds(timeout)) { [weak self] in
            guard let self, let peer = pending[messageID]?.peer, outbox.isWaiting(messageID, to: peer) else { return }
            timedOut(messageID)
        }
        queue.asyncAfter(deadline: .now() + .milliseconds(timeout * 1_000 + Self.grace)) { [weak self] in
            self?.timedOut(messageID)
        }
    }

    private func timedOut(_ messageID: MessageID) {
        let reason = lostReason.map { "this device has no connection: \($0)" } ?? "no device acked the message in time"
        settle(messageID, SignalClientError.make(SignalClientError.notDelivered, reason))
        sendNext()
    }

    /// Sends the next messages. Without a connection no messages leave: the service would keep a message beyond its
    /// time limit.
    func sendNext() {
        guard canSend, let client else { return }
        for sending in outbox.takeNext(now: Self.now) { send(sending, client) }
    }

    private func send(_ sending: Outbox.Sending, _ client: SignalingClient) {
        let draft = sending.draft
        let message = Request.Message(
            to: draft.to, data: draft.data, ttl: sending.ttl, messageID: draft.messageID, seq: sending.seq,
            stream: sending.stream)
        client.perform(.message(message), within: .seconds(sending.ttl)) { [weak self] outcome in
            guard let self, case .failure(let error) = outcome else { return }
            queue.async { self.refused(draft.messageID, error) }
        }
    }

    /// Handles a failed request. A message without a response may still be on its way, so its time limit decides.
    private func refused(_ messageID: MessageID, _ error: SignalingError) {
        guard error.code != .noResponse else { return }
        settle(messageID, SignalClientError.make(SignalClientError.refused, "sendMessage: \(error)"))
        sendNext()
    }

    func took(_ receipt: BellwireReceipt) {
        switch receipt.state {
        case .delivered: settle(receipt.messageID, nil)
        case .expired: return timedOut(receipt.messageID)
        case .sent: return
        }
        sendNext()
    }

    /// Reports the outcome of a message to the app, once.
    func settle(_ messageID: MessageID, _ error: NSError?) {
        guard let known = pending.removeValue(forKey: messageID) else { return }
        outbox.settle(messageID, to: known.peer, isDelivered: error == nil)
        audience.complete(known.completion, error)
    }
}
