import BellwireClient
import Glibc
import SignalingProtocol

/// Handles keys, `--auto` and `--hang-up-after`.
extension Phone {
    /// The call that rings here; the newest call if several calls ring.
    private var ringing: CallSnapshot? {
        calls.last { call in
            call.outcome == nil && call.snapshot.state != .ended
                && call.snapshot.member(settings.user)?.state.isPending == true
        }?.snapshot
    }

    /// The call that this device has joined.
    private var held: PhoneCall? { calls.last { $0.outcome == nil && isHeld($0) } }

    func pressed(_ key: UInt8) {
        if prompt != nil { return typed(key) }
        switch key {
        case UInt8(ascii: "a"): answerRinging(.accept)
        case UInt8(ascii: "r"): answerRinging(.reject)
        case UInt8(ascii: "b"): answerRinging(.busy)
        case UInt8(ascii: "c"): cancelOutgoing()
        case UInt8(ascii: "+"): startPrompt()
        case UInt8(ascii: "q"): quitHeld()
        case UInt8(ascii: "h"):
            guard let held else { return timeline.note("there is no call to end") }
            hangUp(held.snapshot.callID)
        // Ctrl-C and Ctrl-D, if the terminal passes them on as keys.
        case UInt8(ascii: "x"), 0x03, 0x04: leave()
        case UInt8(ascii: "?"): timeline.note(PhoneSettings.keysHelp)
        default: break
        }
    }

    private func answerRinging(_ answer: AutoAnswer) {
        guard let ringing else { return timeline.note("no call rings") }
        self.answer(ringing.callID, answer)
    }

    /// Answers the call by `--auto`, after the wait of `--after`.
    func answer(_ callID: CallID) {
        guard let auto = settings.auto, !isLeaving else { return }
        let isPending = calls.contains { call in
            call.snapshot.callID == callID && call.outcome == nil
                && call.snapshot.member(settings.user)?.state.isPending == true
        }
        if isPending { answer(callID, auto) }
    }

    private func answer(_ callID: CallID, _ answer: AutoAnswer) {
        let data = settings.extendedData
        switch answer {
        case .accept:
            request("call.accept", callID) { client throws(SignalingError) in
                try await client.accept(callID, extendedData: data)
            }
        case .reject:
            request("call.reject", callID) { client throws(SignalingError) in
                try await client.reject(callID, extendedData: data)
            }
        case .busy:
            request("call.reject", callID) { client throws(SignalingError) in
                try await client.reject(callID, reason: WellKnownReason.busy, extendedData: data)
            }
        case .ignore: break
        }
    }

    private func cancelOutgoing() {
        let made = calls.last { $0.outcome == nil && $0.isOutgoing }?.snapshot.callID ?? outgoing
        guard let callID = made else { return timeline.note("there is no call to cancel") }
        request("call.cancel", callID) { client throws(SignalingError) in try await client.cancel(callID) }
    }

    private func quitHeld() {
        guard let callID = held?.snapshot.callID else { return timeline.note("there is no call to leave") }
        request("call.quit", callID) { client throws(SignalingError) in try await client.quit(callID) }
    }

    /// Ends the call for all members. A common call ends with its answer; while a common call rings, a cancel ends the
    /// call.
    func hangUp(_ callID: CallID) {
        guard let call = calls.first(where: { $0.snapshot.callID == callID }), call.outcome == nil, !isLeaving else {
            return
        }
        if call.snapshot.mode == .common {
            cancelOutgoing()
        } else {
            request("call.end", callID) { client throws(SignalingError) in try await client.end(callID) }
        }
    }

    // MARK: Adding a user

    private func startPrompt() {
        guard let held, held.snapshot.mode == .advanced else {
            return timeline.note("users can be added to an advanced call only")
        }
        prompt = []
        timeline.note("user to add, then Enter (Escape: no user):")
    }

    private func typed(_ key: UInt8) {
        switch key {
        case 0x0A, 0x0D:
            let text = String(decoding: prompt ?? [], as: UTF8.self)
            prompt = nil
            echo("\n")
            if !text.isEmpty { add(text) }
        case 0x1B, 0x03:
            prompt = nil
            timeline.note("no user was added")
        case 0x08, 0x7F: dropLastCharacter()
        default:
            // Bytes beyond the longest user id are ignored.
            guard prompt?.count ?? 0 < UserID.maxBytes else { return }
            prompt?.append(key)
            echo([key])
        }
    }

    /// Shows typed text, since the terminal shows no typed text in raw mode.
    private func echo(_ text: String) { echo(Array(text.utf8)) }
    private func echo(_ bytes: [UInt8]) { _ = write(STDOUT_FILENO, bytes, bytes.count) }

    private func dropLastCharacter() {
        var text = String(decoding: prompt ?? [], as: UTF8.self)
        if !text.isEmpty {
            text.removeLast()
            echo("\u{8} \u{8}")
        }
        prompt = Array(text.utf8)
    }

    private func add(_ text: String) {
        guard let user = UserID(text), let callID = held?.snapshot.callID else {
            return timeline.note("\(text) cannot be added")
        }
        timeline.note("adding \(user)")
        let timeout = settings.timeout
        request("call.add", callID) { client throws(SignalingError) in
            try await client.add([user], to: callID, timeout: timeout)
        }
    }
}
