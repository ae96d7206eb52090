import SignalingProtocol

/// Answers about users (docs/protocol.md, section 2, Queries and Users).
package struct UserAnswers {
    let settings: ServiceSettings
    let now: Milliseconds

    package init(settings: ServiceSettings, now: Milliseconds) {
        self.settings = settings
        self.now = now
    }

    package func isOnline(_ devices: [DevicePresence]) -> Bool {
        devices.contains { $0.isReachable(at: now, lease: settings.presence.lease) }
    }

    /// Returns the queries of `users` for the asking user, in the order of their answers.
    package func queries(_ users: [UserID], askedBy user: UserID) -> [Query] {
        users.map(Query.devices) + users.map(Query.profile) + users.map { .block(Block(by: $0, of: user)) }
    }

    /// Returns the answer to a request for users, given the answers to `queries`. A user who has blocked the asking
    /// user always looks offline.
    package func users(_ users: [UserID], _ answers: [QueryAnswer]) -> Response.Outcome {
        var known: [UserSnapshot] = []
        var errors: [UserError] = []
        for (index, user) in users.enumerated() {
            if let profile = answers[users.count + index].profile {
                let isBlocked = answers[2 * users.count + index].isBlocked
                let isOnline = !isBlocked && isOnline(answers[index].devices)
                known.append(profile.snapshot(of: user, isOnline: isOnline))
            } else {
                errors.append(UserError(userID: user, code: .userNotRegistered))
            }
        }
        return .answer(.users(known, errors: errors))
    }
}

/// A page of a user's calls. Calls that would exceed the limit of bytes go to the next page.
package struct HistoryPage {
    private let user: UserID
    /// The places of the user's calls, with a place more than the page may have, to tell whether a next page exists.
    private let places: [HistoryPlace]
    private var rest: ArraySlice<HistoryPlace>
    private var room = CallRoom()
    private var page: [CallSnapshot] = []
    private var last: HistoryPlace?

    package init(of user: UserID, after place: HistoryPlace?, _ places: [HistoryPlace], count: Int) {
        self.user = user
        self.places = places
        rest = places.prefix(count)
        last = place
    }

    /// The calls to load next, no more than roughly fit on the page; empty when the page is complete.
    package var wanted: [CallID] { room.isFull ? [] : rest.prefix(ServiceBounds.callsPerLoad).map(\.callID) }

    /// Adds the records of the `wanted` calls. Calls without a record make the page shorter.
    package mutating func add(_ records: [StoredRecord?]) {
        for (place, stored) in zip(rest, records) where !room.isFull {
            if case .call(let call)? = stored?.record, call.hasMember(user) {
                let snapshot = call.snapshot
                guard room.takes(snapshot) else { break }
                page.append(snapshot)
            }
            last = place
        }
        rest = rest.dropFirst(records.count)
    }

    package var answer: Response.Outcome {
        let isWhole = last == places.last || places.isEmpty
        return .answer(.calls(page, cursor: isWhole ? Answer.lastCursor : last?.text ?? Answer.lastCursor))
    }
}
