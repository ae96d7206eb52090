internal import DropInSupport
internal import SignalingProtocol

/// Passes notices to the app's handler, on the main queue.
extension ZIM {
    func tell(_ notice: Notice) {
        guard let handler else { return }
        switch notice {
        case .connection(let state, let event): handler.stands(self, state, event)
        case .error(let refusal): handler.failed(self, ZIMError(refusal))
        case .tokenWillExpire(let seconds): handler.tokenEnds(self, UInt32(clamping: seconds))
        case .profile(let user): handler.updated(self, ZIMUserFullInfo(user))
        case .created(let call): handler.created(self, ZIMCallInvitationCreatedInfo(call), call.callID.string)
        case .received(let call, let own):
            handler.received(self, ZIMCallInvitationReceivedInfo(call, own: own), call.callID.string)
        case .cancelled(let call, let own):
            handler.cancelled(self, ZIMCallInvitationCancelledInfo(call, own: own), call.callID.string)
        case .timeout(let call): handler.timedOut(self, ZIMCallInvitationTimeoutInfo(call), call.callID.string)
        case .ended(let call): handler.ended(self, ZIMCallInvitationEndedInfo(call), call.callID.string)
        case .overHere(let call, let own): tellOver(handler, call, own)
        case .states(let callID, let members, let answers):
            handler.changed(self, ZIMCallUserStateChangeInfo(members), callID.string)
            tellAnswers(handler, answers, callID.string)
        }
    }

    /// Also reports the answers by the callbacks of ZIM up to 2.8. Only the inviting user gets these reports.
    private func tellAnswers(_ handler: any ZIMEventHandler, _ members: [MemberSnapshot], _ callID: String) {
        for member in members {
            switch member.state {
            case .accepted: handler.accepted(self, ZIMCallInvitationAcceptedInfo(member), callID)
            case .rejected: handler.rejected(self, ZIMCallInvitationRejectedInfo(member), callID)
            default: break
            }
        }
        let late = members.filter { $0.state == .timeout }.map(\.userID.string)
        if !late.isEmpty { handler.answeredTimeout(self, late, callID) }
    }

    /// Reports the end of a call of this mode to an app that is not in the call any more: the states of other devices
    /// would mean nothing to that app.
    private func tellOver(_ handler: any ZIMEventHandler, _ call: CallSnapshot, _ own: MemberSnapshot) {
        switch call.mode {
        case .advanced: handler.ended(self, ZIMCallInvitationEndedInfo(call, by: own), call.callID.string)
        case .common: handler.cancelled(self, ZIMCallInvitationCancelledInfo(call, by: own), call.callID.string)
        }
    }
}

#if canImport(ObjectiveC)
    /// Invokes the handler's methods, each of which is optional.
    extension ZIMEventHandler {
        fileprivate func stands(_ zim: ZIM, _ state: ZIMConnectionState, _ event: ZIMConnectionEvent) {
            self.zim?(zim, connectionStateChanged: state, event: event, extendedData: [:])
        }
        fileprivate func failed(_ zim: ZIM, _ error: ZIMError) { self.zim?(zim, errorInfo: error) }
        fileprivate func tokenEnds(_ zim: ZIM, _ seconds: UInt32) { self.zim?(zim, tokenWillExpire: seconds) }
        fileprivate func updated(_ zim: ZIM, _ info: ZIMUserFullInfo) { self.zim?(zim, userInfoUpdated: info) }
        fileprivate func created(_ zim: ZIM, _ info: ZIMCallInvitationCreatedInfo, _ callID: String) {
            self.zim?(zim, callInvitationCreated: info, callID: callID)
        }
        fileprivate func received(_ zim: ZIM, _ info: ZIMCallInvitationReceivedInfo, _ callID: String) {
            self.zim?(zim, callInvitationReceived: info, callID: callID)
        }
        fileprivate func cancelled(_ zim: ZIM, _ info: ZIMCallInvitationCancelledInfo, _ callID: String) {
            self.zim?(zim, callInvitationCancelled: info, callID: callID)
        }
        fileprivate func timedOut(_ zim: ZIM, _ info: ZIMCallInvitationTimeoutInfo, _ callID: String) {
            // The event has two names. An app that implements the newer name gets the event by that name, else by the
            // older name.
            guard self.zim?(zim, callInvitationTimeout: info, callID: callID) == nil else { return }
            self.zim?(zim, callInvitationTimeout: callID)
        }
        fileprivate func ended(_ zim: ZIM, _ info: ZIMCallInvitationEndedInfo, _ callID: String) {
            self.zim?(zim, callInvitationEnded: info, callID: callID)
        }
        fileprivate func changed(_ zim: ZIM, _ info: ZIMCallUserStateChangeInfo, _ callID: String) {
            self.zim?(zim, callUserStateChanged: info, callID: callID)
        }
        fileprivate func accepted(_ zim: ZIM, _ info: ZIMCallInvitationAcceptedInfo, _ callID: String) {
            self.zim?(zim, callInvitationAccepted: info, callID: callID)
        }
        fileprivate func rejected(_ zim: ZIM, _ info: ZIMCallInvitationRejectedInfo, _ callID: String) {
            self.zim?(zim, callInvitationRejected: info, callID: callID)
        }
        fileprivate func answeredTimeout(_ zim: ZIM, _ invitees: [String], _ callID: String) {
            self.zim?(zim, callInviteesAnsweredTimeout: invitees, callID: callID)
        }
    }
#else
    extension ZIMEventHandler {
        fileprivate func stands(_ zim: ZIM, _ state: ZIMConnectionState, _ event: ZIMConnectionEvent) {
            self.zim(zim, connectionStateChanged: state, event: event, extendedData: [:])
        }
        fileprivate func failed(_ zim: ZIM, _ error: ZIMError) { self.zim(zim, errorInfo: error) }
        fileprivate func tokenEnds(_ zim: ZIM, _ seconds: UInt32) { self.zim(zim, tokenWillExpire: seconds) }
        fileprivate func updated(_ zim: ZIM, _ info: ZIMUserFullInfo) { self.zim(zim, userInfoUpdated: info) }
        fileprivate func created(_ zim: ZIM, _ info: ZIMCallInvitationCreatedInfo, _ callID: String) {
            self.zim(zim, callInvitationCreated: info, callID: callID)
        }
        fileprivate func received(_ zim: ZIM, _ info: ZIMCallInvitationReceivedInfo, _ callID: String) {
            self.zim(zim, callInvitationReceived: info, callID: callID)
        }
        fileprivate func cancelled(_ zim: ZIM, _ info: ZIMCallInvitationCancelledInfo, _ callID: String) {
            self.zim(zim, callInvitationCancelled: info, callID: callID)
        }
        fileprivate func timedOut(_ zim: ZIM, _ info: ZIMCallInvitationTimeoutInfo, _ callID: String) {
            self.zim(zim, callInvitationTimeout: info, callID: callID)
        }
        fileprivate func ended(_ zim: ZIM, _ info: ZIMCallInvitationEndedInfo, _ callID: String) {
            self.zim(zim, callInvitationEnded: info, callID: callID)
        }
        fileprivate func changed(_ zim: ZIM, _ info: ZIMCallUserStateChangeInfo, _ callID: String) {
            self.zim(zim, callUserStateChanged: info, callID: callID)
        }
        fileprivate func accepted(_ zim: ZIM, _ info: ZIMCallInvitationAcceptedInfo, _ callID: String) {
            self.zim(zim, callInvitationAccepted: info, callID: callID)
        }
        fileprivate func rejected(_ zim: ZIM, _ info: ZIMCallInvitationRejectedInfo, _ callID: String) {
            self.zim(zim, callInvitationRejected: info, callID: callID)
        }
        fileprivate func answeredTimeout(_ zim: ZIM, _ invitees: [String], _ callID: String) {
            self.zim(zim, callInviteesAnsweredTimeout: invitees, callID: callID)
        }
    }
#endif
