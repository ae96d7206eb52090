import SignalingProtocol

/// The calls and requests whose writes the store may have lost. The checker does not know which writes were lost. Calls
/// and requests that are made afterwards are checked like any others.
struct LostHistory {
    private var calls: [CallID: Int64] = [:]
    private var requests: [HistoryChecker.RequestKey: Int64] = [:]

    func has(_ callID: CallID) -> Bool { calls[callID] != nil }
    func has(_ key: HistoryChecker.RequestKey) -> Bool { requests[key] != nil }

    mutating func add(_ callID: CallID, at: Int64) { calls[callID] = at }
    mutating func add(_ key: HistoryChecker.RequestKey, at: Int64) { requests[key] = at }

    mutating func forget(before moment: Int64) {
        calls = calls.filter { $0.value >= moment }
        requests = requests.filter { $0.value >= moment }
    }
}

extension HistoryChecker {
    /// Forgets all calls and requests when the store goes back: no more checks are possible.
    mutating func forgetWhatMayBeLost() {
        for callID in calls.keys { lost.add(callID, at: now) }
        for key in requests.keys { lost.add(key, at: now) }
        for key in messages.keys { messages[key]?.mayBeLost = true }
        calls.removeAll()
        requests.removeAll()
        activeCalls.removeAll()
        dropJudgements()
        for device in devices.keys {
            devices[device]?.known.removeAll()
            devices[device]?.rings.removeAll()
        }
    }

    /// Whether the entry is about a call or request that may have been lost. A call that belongs to such a request
    /// counts as lost as well.
    mutating func isOfLostHistory(_ entry: HistoryEntry) -> Bool {
        switch entry.content {
        case .sent(let device, .request(let request)):
            let key = RequestKey(device: device, id: request.id)
            guard lost.has(key) || request.body.callID.map(lost.has) ?? false else { return false }
            lost.add(key, at: now)
            return true
        case .received(let device, .response(let response)):
            let key = RequestKey(device: device, id: response.id)
            guard case .success(let success) = response.outcome, lost.has(key) || lost.has(success.call.callID) else {
                return lost.has(key)
            }
            // The response may name another call, by a glare merge. Both calls then have the same history.
            let own = requests.removeValue(forKey: key)?.request.body.callID
            for callID in [own, success.call.callID].compactMap(\.self) {
                lost.add(callID, at: now)
                calls[callID] = nil
            }
            lost.add(key, at: now)
            return true
        case .received(_, .event(let event)): return lost.has(event.callID)
        default: return false
        }
    }
}
