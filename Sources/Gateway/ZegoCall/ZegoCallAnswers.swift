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
    /// The heartbeats of both begin with the answer.
    case accept
    /// There is no response.
    case heartbeat

    func response(_ outcome: Response.Outcome, wasMissing: Bool) -> HTTPResponse {
        switch outcome {
        case .success, .answer: .zegoCallDone
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
