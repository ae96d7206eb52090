import SignalingProtocol

/// The receiver of a push request.
enum PushProvider: Hashable {
    /// A provider that the settings name.
    case named(String)
    /// A host and port of a Web Push service, which a browser named, together with the user who registered it.
    case webPush(host: String, user: UserID)
}

/// The pushes under way to each provider, and the calls that wait for a free slot. A slow provider thus delays no push
/// to another provider.
struct PushSlots {
    static let perProvider = 100
    /// The bound for one Web Push host, beside `perProvider` for all Web Push hosts together. These hosts belong to
    /// strangers.
    static let perHost = 10
    /// The bound for all Web Push hosts that one user has registered: host names cost nothing, accounts do.
    static let perUser = 5
    /// The bound of waiting calls; further calls try again at their next look.
    static let mostWaiting = 4_096

    private struct Waiting: Hashable {
        let callID: CallID
        let provider: PushProvider
    }

    /// A group of pushes with a common bound.
    private enum Bounded: Hashable {
        case named(String)
        case host(String)
        case user(UserID)
        case allHosts

        var most: Int {
            switch self {
            case .named, .allHosts: perProvider
            case .host: perHost
            case .user: perUser
            }
        }
    }

    private var taken: [Bounded: Int] = [:]
    /// The waiting calls in the order of their arrival; each pair of call and provider once.
    private var waiting: [Waiting] = []
    private var known: Set<Waiting> = []

    /// Takes a slot. Returns false when no slot is free; `release` returns the call when the call's turn has come.
    mutating func take(_ provider: PushProvider, for callID: CallID) -> Bool {
        guard isFree(provider) else {
            let new = Waiting(callID: callID, provider: provider)
            if waiting.count < Self.mostWaiting, known.insert(new).inserted { waiting.append(new) }
            return false
        }
        for bounded in Self.bounds(of: provider) { taken[bounded, default: 0] += 1 }
        return true
    }

    private static func bounds(of provider: PushProvider) -> [Bounded] {
        switch provider {
        case .named(let name): [.named(name)]
        case .webPush(let host, let user): [.host(host), .user(user), .allHosts]
        }
    }

    private func isFree(_ provider: PushProvider) -> Bool {
        Self.bounds(of: provider).allSatisfy { taken[$0] ?? 0 < $0.most }
    }

    /// Frees a slot. Returns the call that has waited longest for a slot that is free now.
    mutating func release(_ provider: PushProvider) -> CallID? {
        for bounded in Self.bounds(of: provider) {
            let left = (taken[bounded] ?? 1) - 1
            taken[bounded] = left > 0 ? left : nil
        }
        guard let place = waiting.firstIndex(where: { isFree($0.provider) }) else { return nil }
        let next = waiting.remove(at: place)
        known.remove(next)
        return next.callID
    }

    /// Removes the call from the waiting calls.
    mutating func forget(_ callID: CallID) {
        guard known.contains(where: { $0.callID == callID }) else { return }
        waiting.removeAll { $0.callID == callID }
        known = known.filter { $0.callID != callID }
    }

    mutating func forgetWaiting() {
        waiting = []
        known = []
    }
}
