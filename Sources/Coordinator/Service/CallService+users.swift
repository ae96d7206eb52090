import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Requests that are about no single call: a user's history, and profiles (docs/protocol.md, section 2, Queries and Users).
extension CallService {
    func serveUserRequest(_ received: ReceivedRequest) {
        do throws(StoreError) {
            if let clockFailure { throw clockFailure }
            // Once more: what came with it may have been answered by much.
            var counts = Counts()
            if let retryAfter = budgets.debt(.sentBytes(received.device.userID), now, &counts) {
                counters.add(counts)
                _ = answer(received, .failure(.rateLimited(retryAfter)))
                return
            }
            let outcome: Response.Outcome
            var isWrite = false
            switch received.request.body {
            case .query(let query): outcome = try history(of: received.device.userID, query)
            case .userUpdate(let update):
                outcome = try updated(received.device.userID, update)
                isWrite = true
            case .userQuery(let query): outcome = try users(query.userIDs, askedBy: received.device.userID)
            case .userBlock(let body):
                outcome = try set(Block(by: received.device.userID, of: body.userID), body.isBlocked)
            case .userBlockList: outcome = .answer(.blocked(try store.blockList(of: received.device.userID)))
            default: preconditionFailure("served with its call or message")
            }
            storeAnswered(isWrite: isWrite)
            charge(answer(received, outcome), to: received.device.userID)
        } catch {
            failed(error)
            answerUnavailable(received)
        }
    }

    /// Returns how many bytes it takes.
    private func answer(_ received: ReceivedRequest, _ outcome: Response.Outcome) -> Int {
        counters.add(.responses, outcome.name)
        let answer = encoder.response(received.request.id, outcome, to: received.device, received.correlationData)
        outbox.append(answer)
        return answer.payload.count
    }

    /// One page of the user's calls: fewer calls rather than more bytes than allowed.
    private func history(of user: UserID, _ query: Request.Query) throws(StoreError) -> Response.Outcome {
        var place: HistoryPlace?
        if let cursor = query.cursor, cursor != Answer.lastCursor {
            guard let known = HistoryPlace(cursor) else {
                return .failure(SignalingError(.badRequest, "cursor: is not one that the service gave"))
            }
            place = known
        }
        let count = query.count ?? ServiceBounds.callsPerPage
        // One more, to know whether there is a next page. Calls whose record is gone make the page shorter.
        let places = try store.history(of: user, after: place, limit: count + 1)
        var room = CallRoom()
        var page: [CallSnapshot] = []
        var last = place
        var rest = places.prefix(count)
        while !rest.isEmpty, !room.isFull {
            // No more are loaded than there is room for, by and large.
            let some = rest.prefix(ServiceBounds.callsPerLoad)
            rest = rest.dropFirst(some.count)
            for (place, stored) in zip(some, try store.load(some.map(\.callID))) where !room.isFull {
                if case .call(let call)? = stored?.record, call.member(user) != nil {
                    let snapshot = call.snapshot
                    guard room.takes(snapshot) else { break }
                    page.append(snapshot)
                }
                last = place
            }
        }
        let isWhole = last == places.last || places.isEmpty
        return .answer(.calls(page, cursor: isWhole ? Answer.lastCursor : last?.text ?? Answer.lastCursor))
    }

    private func updated(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> Response.Outcome {
        let profile = try store.update(user, update)
        return .answer(.user(profile.snapshot(of: user, isOnline: try offline([user]).isEmpty)))
    }

    private func set(_ block: Block, _ isBlocked: Bool) throws(StoreError) -> Response.Outcome {
        guard block.user != block.blocked else {
            return .failure(SignalingError(.badRequest, "userID: is the user's own"))
        }
        guard try store.set(block, isBlocked) else {
            return .failure(SignalingError(.tooLarge, "at most \(Limits.blockedUsers) users can be blocked"))
        }
        return .answer(.blocked(try store.blockList(of: block.user)))
    }

    /// Who has blocked the asking user is never online to that user.
    private func users(_ users: [UserID], askedBy user: UserID) throws(StoreError) -> Response.Outcome {
        let profiles = try store.profiles(of: users)
        let offline = try offline(users, withheld: try blocking(user, among: users))
        var known: [UserSnapshot] = []
        var errors: [UserError] = []
        for (user, profile) in zip(users, profiles) {
            if let profile {
                known.append(profile.snapshot(of: user, isOnline: !offline.contains(user)))
            } else {
                errors.append(UserError(userID: user, code: .userNotRegistered))
            }
        }
        return .answer(.users(known, errors: errors))
    }

    /// Those of `users` without an online device. Who is not to be reached looks the same.
    private func offline(_ users: [UserID], withheld: [UserID] = []) throws(StoreError) -> [UserID] {
        zip(users, try store.devices(of: users)).filter { user, devices in
            withheld.contains(user)
                || !devices.contains { $0.isReachable(at: now, lease: settings.presence.lease) }
        }.map(\.0)
    }
}
