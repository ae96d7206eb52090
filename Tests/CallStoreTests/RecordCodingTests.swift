import CallCore
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore

/// The stored form of a record.
@Suite struct RecordCodingTests {
    @Test func everyFieldOfARecordSurvivesTheStoredForm() throws {
        for seed in 1...1000 as ClosedRange<UInt64> {
            var random = RandomRecord(seed: seed)
            let record = random.record()
            let bytes = RecordCodec.encode(record)
            let decoded = RecordCodec.decode(bytes, .call(record.callID ?? random.id()))
            #expect(decoded == record, "seed \(seed)")
            // Swift holds some different texts equal; the bytes tell.
            #expect(RecordCodec.encode(decoded) == bytes, "seed \(seed)")
        }
    }

    @Test(arguments: StoreKind.allCases)
    func everyStoreGivesBackWhatItWasGiven(kind: StoreKind) throws {
        let test = try kind.open()
        for seed in 1...50 as ClosedRange<UInt64> {
            var random = RandomRecord(seed: seed)
            let record = random.record()
            let id = CallID("record-\(seed)")!
            guard record.callID == nil else { continue }
            let commit = Commit(.call(id), record: record, expected: 0, deadline: nil, expiresAt: nil)
            #expect(try test.store.commit([commit]) == [.committed(version: 1)])
            #expect(try test.load(id.string)?.record == record, "seed \(seed)")
        }
        for seed in 1...50 as ClosedRange<UInt64> {
            var random = RandomRecord(seed: seed)
            let call = random.call()
            let stored = try test.load(call.callID.string)
            #expect(try test.write(call, over: stored?.version ?? 0) == .committed(version: (stored?.version ?? 0) + 1))
            #expect(try test.load(call.callID.string)?.record == .call(call), "seed \(seed)")
        }
    }

    @Test(arguments: ["s", nil]) func aMessageKeepsItsStream(stream: String?) throws {
        let message = message(stream: stream)
        let id = RecordID.message(message.messageID, to: message.to)
        #expect(RecordCodec.decode(RecordCodec.encode(.message(message)), id) == .message(message))
    }

    private func message(stream: String?) -> PeerMessage {
        PeerMessage(
            Request.Message(to: bob, data: JSONText("1")!, seq: 5, stream: stream), messageID: MessageID("m")!,
            origin: RequestKey(device: alicePhone, requestID: RequestID("r")!), ttl: 30_000, isWithheld: false, now: 1)
    }

    @Test func whatALaterVersionAddedIsIgnored() throws {
        let call = call("a")
        var bytes = RecordCodec.encode(.call(call))
        bytes.replaceSubrange(0..<1, with: Array(#"{"later":{"x":[1,2]},"#.utf8))
        #expect(RecordCodec.decode(bytes, .call(call.callID)) == .call(call))
    }

    @Test(arguments: [
        "", "null", "[]", "{}", #"{"alias":"not an id!"}"#, #"{"rev":1,"mode":"sideways"}"#,
        #"{"cancelledBy":"alice"}"#, #"{"cancelledBy":"","at":1}"#,
    ])
    func whatIsNoRecordIsUnreadable(text: String) {
        #expect(RecordCodec.decode(Array(text.utf8), .call(CallID("call-7")!)) == .unreadable)
    }

    /// A coordinator that counted with such a number would leave the range of an integer and end; the next coordinator
    /// would end as well.
    @Test(arguments: [
        #""created":9223372036854775807"#, #""created":-1"#, #""created":9007199254740993"#, #""updated":1e300"#,
        #""updated":0.5"#, #""rev":2147483648"#, #""rev":-1"#, #""timeout":9223372036854775807"#,
        #""ended":-9223372036854775808"#, #""heartbeatDue":1e400"#, #""deliveryDue":"soon""#,
    ])
    func aCallWithANumberThatNoCoordinatorWritesIsUnreadable(field: String) throws {
        // When a key stands twice, the last value counts.
        let bytes = RecordCodec.encode(.call(call("a"))).dropLast() + Array(",\(field)}".utf8)
        #expect(RecordCodec.decode(Array(bytes), .call(CallID("a")!)) == .unreadable)
    }

    /// A coordinator that serves a call looks at the inviter, who is the first member, and at an invitee.
    @Test(arguments: [
        "[]", #"[{"user":"alice","state":"accepted","updated":1}]"#,
        #"[{"user":"alice","state":"accepted","updated":1},{"user":"alice","state":"inviting","updated":1}]"#,
    ])
    func aCallOfNobodyWithNobodyIsUnreadable(members: String) throws {
        let bytes = RecordCodec.encode(.call(call("a"))).dropLast() + Array(#","members":\#(members)}"#.utf8)
        #expect(RecordCodec.decode(Array(bytes), .call(CallID("a")!)) == .unreadable)
    }

    @Test func aCallWithAMemberThatCannotBeReadIsUnreadableAsAWhole() throws {
        let text = String(decoding: RecordCodec.encode(.call(call("a"))), as: UTF8.self)
        let bytes = Array(text.replacing(#""user":"bob""#, with: #""user":"""#).utf8)
        #expect(bytes.count < text.utf8.count)
        #expect(RecordCodec.decode(bytes, .call(CallID("a")!)) == .unreadable)
    }
}

extension Record {
    fileprivate var callID: CallID? {
        if case .call(let call) = self { call.callID } else { nil }
    }
}
