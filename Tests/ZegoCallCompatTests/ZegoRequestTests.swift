import BellwireClientCore
import Foundation
import SignalingProtocol
import Testing
import ZegoCallProtocol

@testable import ZegoCallCompat

/// The reading of an app's parameters.
struct ZegoRequestTests {
    private static var start: [String: AnyObject] {
        [
            "call_id": "123" as AnyObject, "caller": ["id": "alice", "name": "Alice"] as AnyObject,
            "callees": [["id": "bob", "name": "Bob"]] as AnyObject, "type": 2 as AnyObject,
        ]
    }

    private static func code(_ path: String, _ parameter: [String: AnyObject]) -> Int32 {
        do throws(ZegoError) {
            _ = try ZegoRequest(path, parameter)
            return 0
        } catch {
            return error.code
        }
    }

    @Test func swiftValuesAndFoundationsAreRead() throws {
        let call = ZegoCall(
            id: "123", caller: .init(id: "alice", name: "Alice"), callees: [.init(id: "bob", name: "Bob")],
            kind: .video)
        #expect(try ZegoRequest(API_Start_Call, Self.start).action == .start(call))
        let json =
            #"{"call_id":"123","caller":{"id":"alice","name":"Alice"},"callees":[{"id":"bob","name":"Bob"}],"type":2}"#
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
        let foundation = try #require(object).mapValues { $0 as AnyObject }
        #expect(try ZegoRequest(API_Start_Call, foundation).action == .start(call))
    }

    @Test func aNameMayBeMissing() throws {
        var parameter = Self.start
        let nameless: [String: String?] = ["id": "alice", "name": nil]
        parameter["caller"] = nameless as AnyObject
        guard case .start(let call) = try ZegoRequest(API_Start_Call, parameter).action else {
            return #expect(Bool(false))
        }
        #expect(call.caller == ZegoCall.Party(id: "alice", name: ""))
    }

    @Test(arguments: ["call_id", "caller", "callees", "type"])
    func aParameterThatIsMissingIsInvalid(_ name: String) {
        var parameter = Self.start
        parameter[name] = nil
        #expect(Self.code(API_Start_Call, parameter) == 1002)
    }

    @Test(arguments: ["call_id", "caller", "callees", "type"])
    func aParameterOfAnotherTypeIsInvalid(_ name: String) {
        var parameter = Self.start
        parameter[name] = name == "type" ? "1" as AnyObject : 5 as AnyObject
        #expect(Self.code(API_Start_Call, parameter) == 1002)
    }

    @Test(arguments: ["", "/call/", "/call/notify_call_end", "call/start_call"])
    func aPathThatIsNoneIsInvalid(_ path: String) {
        #expect(Self.code(path, Self.start) == 1002)
    }

    @Test(arguments: [(DeclineType.decline, ZegoCall.Decline.declined), (.busy, .busy)])
    func aDeclineHasItsType(_ type: DeclineType, _ expected: ZegoCall.Decline) throws {
        let parameter: [String: AnyObject] = [
            "id": "bob" as AnyObject, "caller_id": "alice" as AnyObject, "call_id": "1" as AnyObject,
            "type": type.rawValue as AnyObject,
        ]
        #expect(try ZegoRequest(API_Decline_Call, parameter).action == .decline(expected))
        #expect(Int64(type.rawValue) == expected.rawValue)
    }

    @Test func theTypesOfACallHaveTheVendorsNumbers() {
        #expect([CallType.voice, .video].map(\.rawValue) == [CallType.voice, .video].map(\.kind.number))
    }

    @Test(arguments: [0, 3, -1])
    func aTypeThatIsNoneIsInvalid(_ type: Int) {
        var parameter = Self.start
        parameter["type"] = type as AnyObject
        #expect(Self.code(API_Start_Call, parameter) == 1002)
        let decline: [String: AnyObject] = [
            "id": "bob" as AnyObject, "caller_id": "alice" as AnyObject, "call_id": "1" as AnyObject,
            "type": type as AnyObject,
        ]
        #expect(Self.code(API_Decline_Call, decline) == 1002)
    }

    @Test func whatTheProtocolDoesNotCarryIsInvalid() {
        var parameter = Self.start
        parameter["caller"] = ["id": "alice", "name": String(repeating: "n", count: 1_900)] as AnyObject
        #expect(Self.code(API_Start_Call, parameter) == 0)
        parameter["caller"] = ["id": "alice", "name": String(repeating: "n", count: 2_000)] as AnyObject
        #expect(Self.code(API_Start_Call, parameter) == 1002)
        parameter = Self.start
        parameter["callees"] = (1...10).map { ["id": "user\($0)", "name": ""] } as AnyObject
        #expect(Self.code(API_Start_Call, parameter) == 1002)
    }

    @Test(arguments: [API_Accept_Call, API_End_Call, API_Call_Heartbeat])
    func theOthersNameTheUserAndTheCall(_ path: String) throws {
        let parameter: [String: AnyObject] = ["id": "bob" as AnyObject, "call_id": "a b" as AnyObject]
        let request = try ZegoRequest(path, parameter)
        #expect(request.userID == UserID("bob") && request.callID == ZegoCall.callID("a b"))
        #expect(Self.code(path, ["id": "bob" as AnyObject]) == 1002)
        #expect(Self.code(path, ["call_id": "1" as AnyObject]) == 1002)
    }
}
