import CallCore

extension PushState {
    /// How far `ring` is, as it is written: its phase, ".", the target, and ".rung" when the device was rung by a target of before. A
    /// phase alone is of whichever target is registered.
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
