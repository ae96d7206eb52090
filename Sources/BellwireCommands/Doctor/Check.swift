/// The result of a check of a part of a deployment.
struct Check {
    enum Verdict: String {
        case ok, warn, fail
    }

    /// A short name without spaces.
    let name: String
    let verdict: Verdict
    /// The observation, a sentence without a full stop.
    let seen: String
    /// The command or setting that mends the fault; nil for `ok`.
    let mend: String?

    /// Returns the same check under another name.
    func named(_ name: String) -> Check { Check(name: name, verdict: verdict, seen: seen, mend: mend) }

    static func ok(_ name: String, _ seen: String) -> Check { Check(name: name, verdict: .ok, seen: seen, mend: nil) }

    static func warn(_ name: String, _ seen: String, mend: String) -> Check {
        Check(name: name, verdict: .warn, seen: seen, mend: mend)
    }

    static func fail(_ name: String, _ seen: String, mend: String) -> Check {
        Check(name: name, verdict: .fail, seen: seen, mend: mend)
    }
}
