import CallCore

extension PushState {
    /// The stored text of `ring`: the phase, ".", the target, and ".rung" when the device was rung by an earlier
    /// target. A phase without a target applies to every registered target.
    package var ringText: String? {
        guard let target else { return ring?.rawValue }
        guard ring != nil || wasRungElsewhere else { return nil }
        return "\(ring?.rawValue ?? "").\(target)\(wasRungElsewhere ? ".rung" : "")"
    }

    package init(_ key: PushRegistration.Key, invitation: Int, ringText: String, stop: Phase?, missed: Phase?) {
        let parts = ringText.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        self.init(
            key, invitation: invitation, ring: Phase(rawValue: parts[0]), stop: stop, missed: missed,
            target: parts.count > 1 && !parts[1].isEmpty ? parts[1] : nil,
            wasRungElsewhere: parts.count > 2 && parts[2] == "rung")
    }
}
