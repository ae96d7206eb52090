import CallCore
import CallStore
import SignalingProtocol

/// Users' lists of live calls, which may name calls that never came about.
struct UserCalls {
    let serving: Serving

    private var store: any RecordStore & UserStore { serving.store }

    /// The users' live calls, the newest first. A list that is full is put right first: what stands in it without a call must not keep
    /// a call out.
    func live(of users: [UserID], limit: Int) async throws(StoreError) -> [[CallID]] {
        let lists = users.map { CallList.live(of: $0, limit: limit) }
        var calls = try await store.read(Lookup(calls: lists)).calls
        for place in users.indices where calls[place].count == limit {
            if try await tidy(users[place]) { calls[place] = try await store.calls(lists[place]) }
        }
        return calls
    }

    /// Removes from the user's list what stands in it without a call. Whether there was something. Not where there was nothing just
    /// before: all that is listed is loaded for it, and lists of calls that live are full as well.
    func tidy(_ user: UserID) async throws(StoreError) -> Bool {
        let context = serving.context
        guard !context.tidied.contains(user, now: serving.now) else { return false }
        var removed = 0
        for _ in 0..<ServiceBounds.tidyings {
            let count = try await store.tidyCalls(of: user)
            removed += count
            guard count > 0 else {
                context.tidied.insert(user, now: serving.now)
                break
            }
        }
        context.counters.add(.listEntriesMended, removed)
        return removed > 0
    }
}
