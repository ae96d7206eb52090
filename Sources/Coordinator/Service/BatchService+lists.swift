import CallCore
import CallStore
import SignalingProtocol

/// Reads and repairs users' lists of live calls. A list may name calls that were never committed.
extension BatchService {
    /// Returns the users' live calls, the newest first. When a list is full, with `limit` entries, the method removes
    /// the entries without a call and reads the list again, since such entries take the places of live calls.
    func liveCalls(of users: [UserID], limit: Int) async throws(StoreError) -> [[CallID]] {
        let lists = users.map { CallList.live(of: $0, limit: limit) }
        var calls = try await store.read(lists.map(Query.calls)).map(\.calls)
        for place in users.indices where calls[place].count == limit {
            if try await tidyCalls(of: users[place]) { calls[place] = try await store.calls(lists[place]) }
        }
        return calls
    }

    /// Removes the entries without a call from the user's list. Returns whether there were any. A list that needed no
    /// repair a moment ago is not checked again: the check loads all listed calls, and a list of live calls can be full
    /// as well.
    func tidyCalls(of user: UserID) async throws(StoreError) -> Bool {
        guard !context.tidied.contains(user, now: now) else { return false }
        var removed = 0
        for _ in 0..<ServiceBounds.tidyings {
            let count = try await store.tidyCalls(of: user)
            removed += count
            guard count > 0 else {
                context.tidied.insert(user, now: now)
                break
            }
        }
        context.counters.add(.listEntriesMended, removed)
        return removed > 0
    }
}
