import HTTPServing
import SignalingProtocol
import ZegoCallProtocol

extension ZegoCode {
    init(_ problem: Problem) {
        let code = ZegoCode(problem.error.code)
        self = code == .failed ? Self.ofStatus(problem) : code
    }

    /// Of what the gateway refuses by itself.
    private static func ofStatus(_ problem: Problem) -> ZegoCode {
        if problem.isAboutExpiry { return .tokenExpired }
        return [401, 403].contains(problem.status) && problem.error.code != .notInviter ? .notLogin : .failed
    }
}

extension Problem {
    /// `{"code","message"}` under the same status.
    var zegoCallResponse: HTTPResponse {
        var response = HTTPResponse.zegoCall(ZegoCode(self).rawValue, error.message, status)
        response.headers = headers
        return response
    }
}

extension HTTPResponse {
    static let zegoCallDone = zegoCall(ZegoCode.success, "", 200)

    static func zegoCall(_ code: Int, _ message: String, _ status: Int) -> HTTPResponse {
        .json(status) { writer in
            writer.field("code", code)
            writer.field("message", message)
        }
    }
}

/// What is waited for in place of a caller's `call_id`.
enum ZegoAnswer {
    case done
    /// A cancel may overtake the start that it follows: it is asked again for a while.
    case cancel
    /// The call is looked at, since its callee has accepted before the cancel that was refused so.
    case lateCancel(SignalingError)
    /// The heartbeats of both begin with the answer.
    case accept
    /// There is no response.
    case heartbeat

    func response(_ outcome: Response.Outcome, wasMissing: Bool) -> HTTPResponse {
        switch outcome {
        case .success, .answer:
            // Others are in the call: the cancel stays refused.
            if case .lateCancel(let error) = self { Problem(error).zegoCallResponse } else { .zegoCallDone }
        // The start has found that it was taken back.
        case .failure(let error)
        where wasMissing && error.code == .invalidState && error.state == MemberState.cancelled.rawValue:
            .zegoCallDone
        case .failure(let error): Problem(error).zegoCallResponse
        }
    }

    /// The call is not there, and may come.
    func isMissing(_ outcome: Response.Outcome) -> Bool {
        guard case .failure(let error) = outcome, case .cancel = self else { return false }
        return error.code == .callNotFound
    }

    /// The device of the caller, which has had no reason to show that it lives while it rang.
    func caller(_ outcome: Response.Outcome) -> (device: DeviceAddress, callID: CallID)? {
        guard case .success(let success) = outcome, case .accept = self,
            let device = success.call.member(success.call.inviter)?.device, device.isZegoCall
        else { return nil }
        return (DeviceAddress(userID: success.call.inviter, deviceID: device), success.call.callID)
    }
}

extension RelayedRequest {
    /// What is asked next before the client is answered.
    ///
    /// A client that cancels is done with the call, whatever it is answered. Where its callee has accepted before, nobody else would end the
    /// call: the callee would talk to nobody, and the caller's next calls be refused. So the call ends, unless it has other members.
    func next(after outcome: Response.Outcome) -> RelayedRequest? {
        guard case .zegoCall(let asked) = answer, case .success(.request(let request)) = UpMessage.decode(payload)
        else { return nil }
        switch (asked, request.body, outcome) {
        case (.cancel, .cancel(let cancel), .failure(let error)) where error.cameAfterAccept:
            return following(request.id, .get(.init(callID: cancel.callID)), .lateCancel(error))
        // A cancel that has ended the call, and is sent again, has the same answer again.
        case (.cancel, .cancel(let cancel), .failure(let error)) where error.code == .callEnded:
            return following(Self.ending(request.id), .end(.init(callID: cancel.callID)), .done)
        case (.lateCancel, .get(let get), .success(let success)):
            guard success.call.members.count(where: \.state.isLive) <= 2 else { return nil }
            return following(Self.ending(request.id), .end(.init(callID: get.callID)), .done)
        default: return nil
        }
    }

    /// The id of the `call.end` that follows a cancel: the same whenever that cancel is sent again.
    private static func ending(_ cancel: RequestID) -> RequestID {
        RequestID(ZegoCall.shortened("call.end after \(cancel.string)"))!
    }

    private func following(_ id: RequestID, _ body: Request.Body, _ answer: ZegoAnswer) -> RelayedRequest {
        let request = UpMessage.request(Request(id: id, body: body))
        return RelayedRequest(device: device, payload: request.encoded(), answer: .zegoCall(answer))
    }
}
