/// An error about a field that is missing, ill-typed or out of range; the error names the field.
enum FieldError: Error {
    case bad(String, String)
    case unknownType(String)

    var signalingError: SignalingError {
        switch self {
        case .bad(let field, let problem): SignalingError(.badRequest, "\(field): \(problem)")
        case .unknownType(let type): SignalingError(.unknownType, "type: \"\(type.prefix(64))\" is not known")
        }
    }
}

/// Reads the fields of a request and checks the type and range of each. A field that is absent or null reads as nil.
struct FieldReader {
    private let json: JSONObject
    /// The whole message, for fields that are passed on unchanged; nil within a nested object.
    private let message: ReceivedObject?

    init(_ message: ReceivedObject) {
        json = message.json
        self.message = message
    }

    init(nested json: JSONObject) {
        self.json = json
        message = nil
    }

    func isAbsent(_ key: String) -> Bool { json[key] == nil }

    func required<Value>(_ key: String, _ value: Value?) throws(FieldError) -> Value {
        guard let value else { throw .bad(key, "is missing") }
        return value
    }

    func text(_ key: String, maxBytes: Int) throws(FieldError) -> String? {
        guard let value = json[key] else { return nil }
        guard let text = value.string else { throw .bad(key, "must be a string") }
        guard text.utf8.count <= maxBytes else { throw .bad(key, "has \(text.utf8.count) bytes, at most \(maxBytes)") }
        return text
    }

    func integer(_ key: String, in range: ClosedRange<Int>) throws(FieldError) -> Int? {
        guard let value = json[key] else { return nil }
        guard let integer = value.integer, range.contains(Int(integer)) else {
            throw .bad(key, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return Int(integer)
    }

    func flag(_ key: String) throws(FieldError) -> Bool? {
        guard let value = json[key] else { return nil }
        guard let flag = value.bool else { throw .bad(key, "must be true or false") }
        return flag
    }

    func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, _: Choice.Type
    ) throws(FieldError) -> Choice? where Choice.RawValue == String {
        guard let value = json[key] else { return nil }
        guard let choice = value.string.flatMap(Choice.init(rawValue:)) else {
            throw .bad(key, "must be one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return choice
    }

    func identifier<ID: ByteIdentifier>(_ key: String, _: ID.Type) throws(FieldError) -> ID? {
        guard let value = json[key] else { return nil }
        guard let id = value.string.flatMap(ID.init) else { throw .bad(key, "must be 1 to 64 of A-Z a-z 0-9 _ -") }
        return id
    }

    func device(_ key: String) throws(FieldError) -> DeviceID? {
        guard let value = json[key] else { return nil }
        guard let device = value.string.flatMap(DeviceID.init) else {
            throw .bad(key, "must be 1 to 64 of A-Z a-z 0-9 . _ ~ -")
        }
        return device
    }

    /// A reader for the object in the field `key`.
    func object(_ key: String) throws(FieldError) -> FieldReader? {
        guard let value = json[key] else { return nil }
        guard let object = value.object else { throw .bad(key, "must be an object") }
        return FieldReader(nested: object)
    }

    /// A text without control characters.
    func plainText(_ key: String, maxBytes: Int) throws(FieldError) -> String? {
        guard let text = try text(key, maxBytes: maxBytes) else { return nil }
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }) else {
            throw .bad(key, "must not contain control characters")
        }
        return text
    }

    /// A name that the sender chose: 1 to 64 of `A-Z a-z 0-9 _ -`.
    func token(_ key: String) throws(FieldError) -> String? { try identifier(key, RequestID.self)?.string }

    func user(_ key: String) throws(FieldError) -> UserID? {
        guard let value = json[key] else { return nil }
        guard let user = value.string.flatMap(UserID.init) else { throw .bad(key, "is not a valid user id") }
        return user
    }

    /// 1 to `limit` distinct users.
    func users(_ key: String, atMost limit: Int = Limits.inviteesPerRequest) throws(FieldError) -> [UserID]? {
        guard let value = json[key] else { return nil }
        guard let array = value.array, (1...limit).contains(array.count) else {
            throw .bad(key, "must be an array of 1 to \(limit) users")
        }
        var users: [UserID] = []
        for (index, element) in array.enumerated() {
            guard let user = element.string.flatMap(UserID.init) else {
                throw .bad("\(key)[\(index)]", "is not a valid user id")
            }
            guard !users.contains(user) else { throw .bad("\(key)[\(index)]", "stands twice") }
            users.append(user)
        }
        return users
    }

    /// The field `data`: any JSON value, also `null`, with the bytes of the message.
    var data: JSONText {
        get throws(FieldError) {
            let text = try required("data", message?.text("data"))
            guard text.bytes.count <= Limits.dataBytes else {
                throw .bad("data", "has \(text.bytes.count) bytes, at most \(Limits.dataBytes)")
            }
            return text
        }
    }

    var sequenceNumber: Int64? {
        get throws(FieldError) { try integer("seq", in: Limits.sequenceNumber).map(Int64.init) }
    }

    var milestones: [Milestone] {
        get throws(FieldError) {
            let object = try required("milestones", json["milestones"])
            guard let fields = object.object?.fields, (1...Limits.milestonesPerDevice).contains(fields.count) else {
                throw .bad("milestones", "must be an object of 1 to \(Limits.milestonesPerDevice) times")
            }
            var milestones: [Milestone] = []
            for field in fields {
                guard RequestID(field.key) != nil else {
                    throw .bad("milestones", "a name must be 1 to 64 of A-Z a-z 0-9 _ -")
                }
                guard let time = field.value.integer, Limits.milestone.contains(time) else {
                    throw .bad(
                        "milestones.\(field.key)",
                        "must be a whole number from \(Limits.milestone.lowerBound) to \(Limits.milestone.upperBound)")
                }
                // When the message has a key twice, the last value counts.
                milestones.removeAll { $0.name == field.key }
                milestones.append(Milestone(name: field.key, milliseconds: time))
            }
            return milestones
        }
    }

    var callID: CallID {
        get throws(FieldError) { try required("callID", identifier("callID", CallID.self)) }
    }

    var extendedData: String? {
        get throws(FieldError) { try text("extendedData", maxBytes: Limits.extendedDataBytes) }
    }

    var reason: String? {
        get throws(FieldError) { try text("reason", maxBytes: Limits.reasonBytes) }
    }

    var push: Request.Push? {
        get throws(FieldError) {
            guard let value = json["push"] else { return nil }
            guard let object = value.object else { throw .bad("push", "must be an object") }
            let fields = FieldReader(nested: object)
            do throws(FieldError) {
                return Request.Push(
                    title: try fields.text("title", maxBytes: Limits.pushFieldBytes),
                    content: try fields.text("content", maxBytes: Limits.pushFieldBytes),
                    payload: try fields.text("payload", maxBytes: Limits.pushFieldBytes),
                    missed: try fields.object("missed")?.missedPush)
            } catch {
                throw error.within("push")
            }
        }
    }

    private var missedPush: Request.Push.Missed {
        get throws(FieldError) {
            do throws(FieldError) {
                return Request.Push.Missed(
                    title: try text("title", maxBytes: Limits.pushFieldBytes),
                    content: try text("content", maxBytes: Limits.pushFieldBytes))
            } catch {
                throw error.within("missed")
            }
        }
    }
}

extension FieldError {
    /// The same error with the field's name prefixed by the name of the enclosing object.
    func within(_ object: String) -> FieldError {
        guard case .bad(let field, let problem) = self else { return self }
        return .bad("\(object).\(field)", problem)
    }
}
