import BellwireClientCore
import BellwireTestKit
import DropInSupport
import Foundation
import Synchronization
import Testing

@testable import ZegoCallCompat

/// The lines that an app was told, in their order.
final class Told: Sendable {
    private let list = Mutex<[String]>([])

    func add(_ what: String) { list.withLock { $0.append(what) } }

    func heard(_ count: Int) async throws -> [String] {
        while list.withLock(\.count) < count { try await Task.sleep(for: .milliseconds(2)) }
        return list.withLock(\.self)
    }

    /// Returns all lines, once this line is among them.
    func heard(_ what: String) async throws -> [String] {
        while !list.withLock({ $0.contains(what) }) { try await Task.sleep(for: .milliseconds(2)) }
        return list.withLock(\.self)
    }
}

/// An app on a service in memory.
struct Party {
    let user: String
    let told = Told()
    let connection: ZegoConnection
    let network: LosingTransport

    /// `losing`: how many of its invitations the network loses.
    init(_ user: String, _ service: TestService, losing count: Int = 0) {
        self.user = user
        let told = told
        network = LosingTransport(service.transport, losing: count)
        connection = ZegoConnection(transport: network) { notification in
            MainDelivery.deliver { told.add(notification.path) }
        }
    }

    func connect() async throws {
        var configuration = BellwireConfiguration(broker: "mqtt://unused")
        configuration.device = "phone"
        let told = told
        connection.connect(
            configuration, userID: user, userName: user, OnMain { told.add("connected \($0?.code ?? 0)") })
        #expect(try await told.heard(1).first == "connected 0")
    }

    func connected() async throws -> Party {
        try await connect()
        return self
    }

    func ask(_ path: String, _ parameter: [String: AnyObject]) throws {
        let told = told
        let callback: RequestCallback = { result in
            if case .failure(let error) = result { told.add("\(path) \(error.code)") } else { told.add(path) }
        }
        connection.perform(try ZegoRequest(path, parameter), OnMain(callback))
    }

    func ask(_ path: String) throws { try ask(path, ["id": user as AnyObject, "call_id": "a b" as AnyObject]) }

    func call(_ callees: Party...) throws {
        try ask(
            API_Start_Call,
            [
                "call_id": "a b" as AnyObject, "caller": ["id": user, "name": user] as AnyObject,
                "callees": callees.map { ["id": $0.user, "name": $0.user] } as AnyObject, "type": 1 as AnyObject,
            ])
    }

    func cancel(_ callee: Party) throws {
        try ask(
            API_Cancel_Call,
            [
                "id": user as AnyObject, "call_id": "a b" as AnyObject, "callee_id": callee.user as AnyObject,
            ])
    }
}
