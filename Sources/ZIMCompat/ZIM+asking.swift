internal import BellwireClient
internal import DropInSupport
internal import SignalingProtocol

/// The way from a method's parameters to its callback.
extension ZIM {
    /// Sends a request about a call. `done` is called on the main queue.
    func perform(
        _ make: () throws(Refusal) -> Request.Body,
        done: @escaping @Sendable (Result<Response.Success, Refusal>) -> Void
    ) {
        do throws(Refusal) {
            let session = try session()
            session.perform(try make()) { result in MainDelivery.deliver { done(result) } }
        } catch {
            MainDelivery.deliver { done(.failure(error)) }
        }
    }

    /// Sends any other request. `done` is called in the order of events.
    func ask(
        _ make: (Session) throws(Refusal) -> Request.Body,
        done: @escaping @Sendable (Session?, Result<Answer, Refusal>) -> Void
    ) {
        do throws(Refusal) {
            let session = try session()
            session.ask(try make(session)) { result in done(session, result) }
        } catch {
            done(nil, .failure(error))
        }
    }

    static func callID(_ text: String) throws(Refusal) -> CallID {
        guard let callID = CallID(text) else {
            throw .badParameter("callID: 1 to 64 of A-Z a-z 0-9 _ -")
        }
        return callID
    }

    static func users(_ texts: [String]) throws(Refusal) -> [UserID] {
        var users: [UserID] = []
        for text in texts {
            guard let user = UserID(text) else {
                throw .badParameter("a user id has 1 to 64 bytes of UTF-8, without control characters")
            }
            users.append(user)
        }
        return users
    }
}

extension Request.Push {
    init?(_ config: ZIMPushConfig?) {
        guard let config else { return nil }
        self.init(title: config.title.nonEmpty, content: config.content.nonEmpty, payload: config.payload.nonEmpty)
    }
}

extension Result where Failure == Refusal {
    var success: Success? { try? get() }

    var refusal: Refusal? {
        if case .failure(let refusal) = self { refusal } else { nil }
    }
}
