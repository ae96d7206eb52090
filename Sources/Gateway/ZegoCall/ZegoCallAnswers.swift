import HTTPServing
import SignalingProtocol
import ZegoCallProtocol

extension ZegoCode {
    init(_ problem: Problem) {
        let code = ZegoCode(problem.error.code)
        self = code == .failed ? Self.ofStatus(problem) : code
    }

    /// The code of a refusal that the gateway makes itself.
    private static func ofStatus(_ problem: Problem) -> ZegoCode {
        if problem.isAboutExpiry { return .tokenExpired }
        return [401, 403].contains(problem.status) && problem.error.code != .notInviter ? .notLogin : .failed
    }
}

extension Problem {
    /// The refusal as `{"code","message"}` with the same status.
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

/// The ways to respond to a request of ZEGO Call.
enum ZegoAnswer {
    case done
    /// A cancel may overtake the start of the same call, so the gateway repeats the cancel for a while.
    case cancel
    /// A cancel that was refused, because the invitee had accepted before. The call's members decide the next step.
    case lateCancel(SignalingError)
    /// An accept, from which the heartbeats of both members begin.
    case accept
    /// A heartbeat, which has no response.
    case heartbeat

    func response(_ outcome: Response.Outcome, wasMissing: Bool) -> HTTPResponse {
        switch outcome {
        case .success, .answer:
            // The call has other members, so the cancel stays refused.
            if case .lateCancel(let error) = self { Problem(error).zegoCallResponse } else { .zegoCallDone }
        // The start has found the early cancel.
        case .failure(let error)
        where wasMissing && error.code == .invalidState && error.state == MemberState.cancelled.rawValue:
            .zegoCallDone
        case .failure(let error): Problem(error).zegoCallResponse
        }
    }

    /// Whether the call does not exist, and may still come.
    func isMissing(_ outcome: Response.Outcome) -> Bool {
        guard case .failure(let error) = outcome, case .cancel = self else { return false }
        return error.code == .callNotFound
    }

    /// Returns the inviter's device when an accept succeeds; until then this device had no reason to send heartbeats.
    func caller(_ outcome: Response.Outcome) -> (device: DeviceAddress, callID: CallID)? {
        guard case .success(let success) = outcome, case .accept = self,
            let device = success.call.member(success.call.inviter)?.device, device.isZegoCall
        else { return nil }
        return (DeviceAddress(userID: success.call.inviter, deviceID: device), success.call.callID)
    }
}

extension RelayedRequest {
    /// Returns the request that follows before the client gets its response; nil when no request follows.
    ///
    /// A client that cancels is done with the call, whatever the response. If the invitee accepted before, no other
    /// client would end the call: the invitee would stay alone in the call, and the inviter's next calls would be
    /// refused. Therefore the gateway ends the call, unless the call has other members.
    func next(after outcome: Response.Outcome) -> RelayedRequest? {
        guard case .zegoCall(let asked) = answer, case .success(.request(let request)) = UpMessage.decode(payload)
        else { return nil }
        switch (asked, request.body, outcome) {
        case (.cancel, .cancel(let cancel), .failure(let error)) where error.cameAfterAccept:
            return following(request.id, .get(.init(callID: cancel.callID)), .lateCancel(error))
        // A cancel that has ended the call, and is sent again, gets the same response again.
        case (.cancel, .cancel(let cancel), .failure(let error)) where error.code == .callEnded:
            return following(Self.ending(request.id), .end(.init(callID: cancel.callID)), .done)
        case (.lateCancel, .get(let get), .success(let success)):
            guard success.call.members.count(where: \.state.isLive) <= 2 else { return nil }
            return following(Self.ending(request.id), .end(.init(callID: get.callID)), .done)
        default: return nil
        }
    }

    /// Returns the id of the `call.end` that follows a cancel; the same for each repetition of that cancel.
    private static func ending(_ cancel: RequestID) -> RequestID {
        RequestID(ZegoCall.shortened("call.end after \(cancel.string)"))!
    }

    private func following(_ id: RequestID, _ body: Request.Body, _ answer: ZegoAnswer) -> RelayedRequest {
        let request = UpMessage.request(Request(id: id, body: body))
        return RelayedRequest(device: device, payload: request.encoded(), answer: .zegoCall(answer))
    }
}
