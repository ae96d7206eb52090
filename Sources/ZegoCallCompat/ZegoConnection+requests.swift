internal import BellwireClient
internal import BellwireClientCore
internal import DropInSupport
internal import Foundation
internal import SignalingProtocol
internal import ZegoCallProtocol

/// The requests of document 003.
extension ZegoConnection {
    func perform(_ request: ZegoRequest, _ callback: Callback) {
        queue.async { [self] in
            do throws(ZegoError) {
                guard let client, isLoggedIn else { throw .notLogin }
                guard request.userID == client.configuration.user else { throw .paramInvalid }
                guard try !waits(request, client, callback) else { return }
                try perform(request, client, callback)
            } catch {
                complete(callback, .failure(error))
            }
        }
    }

    /// Holds requests back while this device leaves calls of an earlier run of the app, and returns whether `request`
    /// waits. The present run knows nothing of such a call, and the service would refuse every other call until the
    /// missing heartbeats end this user's part. So the device leaves that call before making or accepting another call.
    private func waits(
        _ request: ZegoRequest, _ client: SignalingClient, _ callback: Callback
    ) throws(ZegoError) -> Bool {
        if let waiting {
            guard waiting.count < Self.mostWaiting else { throw .failed }
            self.waiting = waiting + [(request, callback)]
            return true
        }
        let orphaned = request.takesPart ? client.orphanedCalls(besides: request.callID) : []
        guard !orphaned.isEmpty else { return false }
        waiting = [(request, callback)]
        client.quit(orphaned, within: Self.quitTime) { [weak self] in
            guard let self else { return }
            queue.async {
                // After the end of that client the waiting requests have failed already.
                if self.client === client { self.performWaiting(client) }
            }
        }
        return true
    }

    private func performWaiting(_ client: SignalingClient) {
        let requests = waiting ?? []
        waiting = nil
        for (request, callback) in requests {
            do throws(ZegoError) {
                try perform(request, client, callback)
            } catch {
                complete(callback, .failure(error))
            }
        }
    }

    private func perform(_ request: ZegoRequest, _ client: SignalingClient, _ callback: Callback) throws(ZegoError) {
        let callID = request.callID
        switch request.action {
        case .start(let call): try start(call, callID, client, callback)
        case .cancel(let callee): try cancel(callID, callee, client, callback)
        case .accept: ask(.accept(.init(callID: callID)), client, callback)
        case .decline(let type): ask(.reject(.init(callID: callID, reason: type.reason)), client, callback)
        case .end: end(callID, client, callback)
        case .heartbeat:
            try beat(callID, client)
            complete(callback, .success(()))
        }
    }

    private func start(
        _ call: ZegoCall, _ callID: CallID, _ client: SignalingClient, _ callback: Callback
    ) throws(ZegoError) {
        let callees = call.callees.compactMap { UserID($0.id) }
        guard Set(callees).count == callees.count, !callees.contains(client.configuration.user) else {
            throw .paramInvalid
        }
        let invite = Request.Invite(
            invitees: callees, callID: callID, mode: .advanced, timeout: ZegoCall.timeout, media: call.kind.media,
            extendedData: call.extendedData)
        let isNew = ledger?.started(call, callID) == true
        if isNew, callees.count > 1 { held.starting(callID) }
        ask(.invite(invite), client, callback) { connection, answer in
            if isNew { connection.started(callID, answer, client) }
        }
    }

    /// Handles the response to a start. Cancels that waited for a refused start fail, since there are no invitations.
    private func started(_ callID: CallID, _ answer: Answered, _ client: SignalingClient) {
        if answer == .refused { ledger?.refused(callID) }
        for cancel in held.answered(callID) {
            switch answer {
            case .refused: complete(cancel.callback, .failure(.failed))
            case .done, .nothing:
                let left = max(cancel.deadline - .now, .seconds(1))
                let body = Request.Body.cancel(.init(callID: callID, invitees: [cancel.callee]))
                ask(body, client, within: left, cancel.callback)
            }
        }
    }

    /// Cancels the invitation of a callee. Sent right after its `start_call`, the cancel may arrive first and then
    /// stands for the whole call. Such a cancel suits a call of a single callee; with several callees the cancel waits.
    private func cancel(
        _ callID: CallID, _ callee: UserID, _ client: SignalingClient, _ callback: Callback
    ) throws(ZegoError) {
        let cancel = HeldCancels.Cancel(callee: callee, callback: callback, deadline: .now + Self.requestTimeout)
        guard try !held.hold(cancel, of: callID) else { return }
        let callees = ledger?.calls[callID]?.call.callees ?? []
        let isAlone = callees.count == 1 && callees.first.flatMap { UserID($0.id) } == callee
        guard isAlone else { return ask(.cancel(.init(callID: callID, invitees: [callee])), client, callback) }
        cancelOnlyCallee(of: callID, client, callback)
    }

    /// Cancels the call of a single callee. The callee may have accepted meanwhile: the app takes a cancelled call for
    /// ended, so the call ends.
    private func cancelOnlyCallee(of callID: CallID, _ client: SignalingClient, _ callback: Callback) {
        client.perform(.cancel(.init(callID: callID)), within: Self.requestTimeout) { [weak self] outcome in
            guard let self else { return }
            queue.async {
                guard let error = outcome.error else { return self.complete(callback, .success(())) }
                guard error.cameAfterAccept, self.client === client else {
                    return self.complete(callback, .failure(self.refusal(error)))
                }
                self.end(callID, client, callback)
            }
        }
    }

    private func end(_ callID: CallID, _ client: SignalingClient, _ callback: Callback) {
        ledger?.ending(callID)
        ask(.end(.init(callID: callID)), client, callback) { connection, answer in
            if answer == .refused { connection.ledger?.notEnding(callID) }
        }
    }

    /// Sends a heartbeat. The service does not answer a heartbeat, so the ledger decides on the result.
    private func beat(_ callID: CallID, _ client: SignalingClient) throws(ZegoError) {
        switch ledger?.calls[callID]?.phase {
        case .taken: break
        case .ringing, .over: throw .callStatusWrong
        case .unknown, nil: throw .failed
        }
        guard isOnline else { throw unreachable }
        client.heartbeat(callID)
    }

    /// The outcome of a request.
    private enum Answered {
        case done
        /// The service refused the request, which had no effect.
        case refused
        /// There was no response: the request may have had its effect.
        case nothing
    }

    /// Sends a request. `then` is called after the callback, unless the connection has been replaced by then.
    private func ask(
        _ body: Request.Body, _ client: SignalingClient, within time: Duration = requestTimeout, _ callback: Callback,
        then: @escaping @Sendable (ZegoConnection, Answered) -> Void = { _, _ in }
    ) {
        client.perform(body, within: time) { [weak self] outcome in
            guard let self else { return }
            queue.async {
                let error = outcome.error
                self.complete(callback, error.map { .failure(self.refusal($0)) } ?? .success(()))
                guard self.client === client else { return }
                then(self, error.map { $0.code == .noResponse ? .nothing : .refused } ?? .done)
            }
        }
    }

    func complete(_ callback: Callback, _ result: Result<Void, ZegoError>) {
        MainDelivery.deliver { callback.value?(result.map { $0 as Any }) }
    }
}

// MARK: Refusals

extension ZegoConnection {
    /// Whether the service knows this device at present.
    var isOnline: Bool { standing == .connected }

    /// Returns the error for a failed request.
    func refusal(_ error: SignalingError) -> ZegoError {
        let refusal = ZegoError(error)
        return refusal == .networkError ? unreachable : refusal
    }

    /// The error while there is no connection.
    var unreachable: ZegoError {
        guard case .refused = standing, tokens.hasEnded else { return .networkError }
        return .tokenExpired
    }
}

extension ZegoRequest {
    /// Whether the device is in the call after the request.
    fileprivate var takesPart: Bool {
        switch action {
        case .start, .accept: true
        default: false
        }
    }
}

extension Response.Outcome {
    fileprivate var error: SignalingError? {
        if case .failure(let error) = self { error } else { nil }
    }
}
