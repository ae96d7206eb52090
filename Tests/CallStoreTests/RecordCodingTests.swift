import CallCore
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
