import SignalingProtocol
import Testing

/// The limits of a whole message (docs/protocol.md, section 1, "Size").
struct RequestSizeTests {
    /// A valid request of exactly `count` bytes.
    private func request(of count: Int, id: String = #""id":"r1","#) -> [UInt8] {
        let start = "{\(id)\"type\":\"call.get\",\"callID\":\"c\",\"pad\":\""
        return utf8(start + String(repeating: "x", count: count - start.utf8.count - 2) + "\"}")
    }

    @Test func sixtyFourKiBAreAllowed() throws {
        let bytes = request(of: 64 * 1024)
        #expect(bytes.count == 65536)
        #expect(
            try UpMessage.decode(bytes).get()
                == .request(.init(id: RequestID("r1")!, body: .get(.init(callID: CallID("c")!)))))
    }

    @Test func oneByteMoreIsTooLargeByResponse() throws {
        let refusal = try #require(refused(request(of: 64 * 1024 + 1)))
        #expect(refusal.requestID == RequestID("r1"))
        #expect(refusal.error.code == .tooLarge)
    }

    @Test(arguments: ["", #""id":5,"#, #""id":"a b","#])
    func withoutAUsableIDItIsTooLargeByError(_ id: String) throws {
        let refusal = try #require(refused(request(of: 70_000, id: id)))
        #expect(refusal.requestID == nil)
        #expect(refusal.error.code == .tooLarge)
    }

    @Test func whatIsNotJSONIsTooLargeByError() throws {
        for bytes in [
            [UInt8](repeating: UInt8(ascii: "x"), count: 70_000), [UInt8](repeating: 0xFF, count: 70_000),
            utf8("[\"" + String(repeating: "x", count: 70_000) + "\"]"), request(of: 70_000).dropLast(),
        ] {
            let refusal = try #require(refused(bytes))
            #expect(refusal.requestID == nil)
            #expect(refusal.error.code == .tooLarge)
        }
    }

    @Test func aMegabyteIsStillReadForItsID() throws {
        let refusal = try #require(refused(request(of: 1 << 20)))
        #expect(refusal.requestID == RequestID("r1"))
        #expect(refusal.error.code == .tooLarge)
    }

    @Test func moreThanAMegabyteIsNotRead() throws {
        let refusal = try #require(refused(request(of: 1 << 20 + 1)))
        #expect(refusal.requestID == nil)
        #expect(refusal.error.code == .tooLarge)
    }

    @Test func tooLargeComesBeforeEveryOtherProblem() throws {
        let padding = String(repeating: "x", count: 70_000)
        let text = "{\"id\":\"r1\",\"type\":\"nonsense\",\"callID\":5,\"pad\":\"\(padding)\"}"
        #expect(refused(text)?.error.code == .tooLarge)
    }

    @Test func theLimitIsASetting() throws {
        #expect(refused(request(of: 101), maxBytes: 100)?.error.code == .tooLarge)
        #expect(refused(request(of: 100), maxBytes: 100) == nil)
        #expect(refused(request(of: 100_000), maxBytes: 100_000) == nil)
    }
}
