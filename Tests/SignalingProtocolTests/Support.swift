import SignalingProtocol

/// SplitMix64: the same documents on every run, so that a failure can be repeated from its seed.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func parse(_ text: String) throws(JSONError) -> JSONValue { try JSONParser.parse(utf8(text)) }

/// The value, or nil when the bytes are not JSON.
func parsed(_ bytes: [UInt8]) -> JSONValue? { try? JSONParser.parse(bytes) }

/// The refusal of a message, nil when it was read.
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
