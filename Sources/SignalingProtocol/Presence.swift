/// A message that a device publishes on its presence topic (docs/protocol.md, section 1).
package struct PresenceMessage: Equatable, Sendable {
    package enum OfflineReason: String, Sendable, CaseIterable {
        /// The broker published the device's will, because the connection broke.
        case lost
        /// The device said goodbye before a clean disconnect.
        case logout
    }

    package enum Status: Equatable, Sendable {
        case online
        case offline(OfflineReason)
    }

    package var status: Status
    /// A random text per connection. An absent `session` reads as the empty string; the service never remembers the
    /// empty string as a session that is over.
    package var session: String

    package init(_ status: Status, session: String) {
        self.status = status
        self.session = session
    }

    package func encoded() -> [UInt8] {
        JSONWriter.object(capacity: 96) { writer in
            switch status {
            case .online: writer.field("online", true)
            case .offline(let reason):
                writer.field("online", false)
                writer.field("reason", reason.rawValue)
            }
            writer.field("session", session)
        }
    }

    package static func decode(_ payload: [UInt8], maxBytes: Int = Limits.requestBytes) -> Result<Self, SignalingError>
    {
        guard payload.count <= maxBytes else {
            return .failure(
                SignalingError(.tooLarge, "the message has \(payload.count) bytes; at most \(maxBytes) are allowed"))
        }
        do {
            guard case .object(let json) = try JSONParser.parse(payload) else {
                return .failure(SignalingError(.badRequest, "the message is not a JSON object"))
            }
            return .success(try Self(FieldReader(nested: json)))
        } catch let error as JSONError {
            return .failure(SignalingError(.badRequest, "the message is not JSON: \(error)"))
        } catch let error as FieldError {
            return .failure(error.signalingError)
        } catch {
            return .failure(SignalingError(.badRequest, "the message cannot be read"))
        }
    }

    private init(_ fields: FieldReader) throws(FieldError) {
        let online = try fields.required("online", fields.flag("online"))
        let reason = try fields.choice("reason", OfflineReason.self)
        session = try fields.text("session", maxBytes: Limits.sessionBytes) ?? ""
        // A will without a reason can only come from a broken connection.
        status = online ? .online : .offline(reason ?? .lost)
    }
}
