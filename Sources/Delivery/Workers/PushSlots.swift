import SignalingProtocol

/// Who is asked to push.
enum PushProvider: Hashable {
    /// Whom the settings name.
    case named(String)
    /// One host and port of those that browsers name, for the user who named it.
    case webPush(host: String, user: UserID)
}

/// How many pushes are under way to whom, and which calls wait for one to come back: a provider that is slow holds up nobody else.
struct PushSlots {
    static let perProvider = 100
    /// Strangers' servers: to each, beside `perProvider` to all of them.
    static let perHost = 10
    /// To all those that one user has named: names of hosts cost nothing, accounts do.
    static let perUser = 5
    /// Of those that wait; others look by themselves now and then.
    static let mostWaiting = 4_096

    private struct Waiting: Hashable {
        let callID: CallID
        let provider: PushProvider
    }

    /// Of whom only so many may be under way.
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
    /// In the order in which they came; each call and provider once.
    private var waiting: [Waiting] = []
    private var known: Set<Waiting> = []

    /// False when there is none: the call is told of by `release` when its turn has come.
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

    /// Returns the call that has waited longest for what is free now.
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

    /// The call waits for nothing any more.
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
