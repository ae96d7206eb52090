import SignalingProtocol
import Support
import Testing

@testable import BellwireClientCore

/// A request that begins a call is held behind a request that leaves another call (section 2, Clarifications,
/// Requests). Most of the cases are in Tests/ClientCases.
@Suite struct HeldRequestTests {
    private let other = CallID("call-2")!

    @Test func whatIsHeldLeavesWithWhatIsLeftOfItsTime() {
        var device = Device.online(bob)
        device.send("r1", quit)
        device.pass(10)
        device.send("r2", .accept(.init(callID: other)))
        device.respond("r1", .unavailable)
        device.pass(29_990)
        #expect(device.outcomes == ["r1 unavailable"])
        #expect(device.sentRequests.last == "r2")
        device.pass(10)
        #expect(device.outcomes == ["r1 unavailable", "r2 noResponse"])
    }

    @Test func anAppThatWaitsForLessIsAnsweredSooner() {
        var device = Device.online(bob)
        device.send("r1", quit)
        let accept = Request(id: RequestID("r2")!, body: .accept(.init(callID: other)))
        device.perform { $0.send(accept, within: 5_000, now: $1) }
        device.pass(5_000)
        #expect(device.outcomes == ["r2 noResponse"])
        let message = failure(of: "r2", in: device)?.message ?? ""
        #expect(message == "no response within 5000 ms: it waited for the answer to an earlier request")
        device.take()
        device.respond("r1", call(4, .ended, mode: .advanced))
        #expect(device.sentRequests.isEmpty, "nor does it leave after that")
    }

    @Test func whatIsHeldCountsAmongTheRequestsAtOnce() {
        var configuration = ClientMachine.Configuration()
        configuration.requests = 3
        var device = Device.online(bob, configuration: configuration)
        device.send("r1", quit)
        for number in 2...4 { device.send("r\(number)", .invite(.init(invitees: [alice]))) }
        #expect(device.outcomes == ["r4 tooManyRequests"])
        device.respond("r1", .callEnded)
        #expect(device.sentRequests == ["r1", "r2", "r3"])
        device.respond("r2", .callFull)
        device.respond("r3", .callFull)
        device.take()
        device.send("r5", .invite(.init(invitees: [alice])))
        #expect(device.sentRequests == ["r5"], "nothing is left that holds")
    }

    /// Whatever apps, services and connections do: no request that begins a call leaves before each earlier request
    /// that leaves another call has had its outcome, and each request has an outcome in its time.
    @Test(arguments: 0..<200) func nothingIsOvertakenAndNothingStays(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var device = Device.online(bob)
        var asked: [Request] = []
        var open: Set<RequestID> = []
        var hasLeft: Set<RequestID> = []
        for step in 0..<80 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0: device.disconnect()
            case 1, 2: device.connect("s\(step + 2)")
            case 3, 4: device.pass(Int64.random(in: 1...4_000, using: &random))
            case 5, 6:
                let answerable = open.intersection(hasLeft).map(\.string).sorted()
                guard let id = answerable.randomElement(using: &random) else { continue }
                device.respond(id, [.callNotFound, .callEnded, .unavailable].randomElement(using: &random)!)
            default:
                let callID = CallID("call-\(Int.random(in: 1...3, using: &random))")!
                let bodies: [Request.Body] = [
                    .invite(.init(invitees: [alice], callID: callID)), .accept(.init(callID: callID)),
                    .join(.init(callID: callID)), .quit(.init(callID: callID)), .end(.init(callID: callID)),
                    .cancel(.init(callID: callID)), .reject(.init(callID: callID, reason: "busy")),
                ]
                let request = Request(id: RequestID("r\(step)")!, body: bodies.randomElement(using: &random)!)
                asked.append(request)
                open.insert(request.id)
                device.perform { $0.send(request, now: $1) }
            }
            check(device.take(), asked, &open, &hasLeft)
        }
        device.pass(30_000)
        check(device.take(), asked, &open, &hasLeft)
        #expect(open.isEmpty)
    }

    private func check(
        _ actions: [ClientMachine.Action], _ asked: [Request], _ open: inout Set<RequestID>,
        _ hasLeft: inout Set<RequestID>
    ) {
        for action in actions {
            switch action {
            case .publish(.request(let request)):
                hasLeft.insert(request.id)
                let before = asked.prefix { $0.id != request.id }
                let isHeld = begins(request) && before.contains { open.contains($0.id) && leaves($0) }
                #expect(!isHeld, "\(request)")
            case .succeed(let id, _), .answer(let id, _), .fail(let id, _):
                #expect(open.remove(id) != nil, "a second outcome of \(id)")
            case .publish, .publishPresence, .deliver, .refuse, .renewSession, .endTakenOver, .renewToken: break
            }
        }
    }

    private func begins(_ request: Request) -> Bool {
        switch request.body {
        case .invite, .accept, .join: true
        default: false
        }
    }

    private func leaves(_ request: Request) -> Bool {
        switch request.body {
        case .quit, .end, .reject, .cancel: true
        default: false
        }
    }

    private func failure(of id: String, in device: Device) -> SignalingError? {
        for case .fail(let failed, let error) in device.actions.map(\.action) where failed.string == id { return error }
        return nil
    }
}
