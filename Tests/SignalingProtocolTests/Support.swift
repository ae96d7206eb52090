import SignalingProtocol
import Support

extension SplitMix64 {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func parse(_ text: String) throws(JSONError) -> JSONValue { try JSONParser.parse(utf8(text)) }

/// The value, or nil when the bytes are not JSON.
func parsed(_ bytes: [UInt8]) -> JSONValue? { try? JSONParser.parse(bytes) }

/// The refusal of a message; nil when the message was read.
func refused(_ text: String, maxBytes: Int = Limits.requestBytes) -> UpMessageRefusal? {
    refused(utf8(text), maxBytes: maxBytes)
}

func refused(_ bytes: [UInt8], maxBytes: Int = Limits.requestBytes) -> UpMessageRefusal? {
    guard case .failure(let refusal) = UpMessage.decode(bytes, maxBytes: maxBytes) else { return nil }
    return refusal
}

func decoded(_ text: String) throws -> UpMessage { try UpMessage.decode(utf8(text)).get() }

/// The body of the request in `text`.
func body(_ text: String) throws -> Request.Body? {
    guard case .request(let request) = try decoded(text) else { return nil }
    return request.body
}

func users(_ names: String...) -> [UserID] { names.map { UserID($0)! } }
