import CallCore
import Delivery
import SignalingProtocol

/// A gateway that passes on the ring checks of phones that were woken by a push and are not connected.
final class SimulatedGateway: BrokerClient {
    let clientID = "gateway-1"
    private unowned(unsafe) let world: World
    private var connection: Int?
    private var requests = 0
    private var waiting: [RequestID: (RingState?) -> Void] = [:]

    init(in world: World) { self.world = world }

    /// Sends a ring check. Answers nil when the key is wrong, or when no response comes.
    func ask(
        _ push: PushSighting, isRejected: Bool, secret: [UInt8], _ answered: @escaping (RingState?) -> Void
    ) {
        let device = push.device
        guard
            let invitation = RingKey.invitation(
                of: push.ringKey, secret: secret, callID: push.id.callID, user: device.userID, device: device.deviceID)
        else { return answered(nil) }
        if connection == nil {
            connection =
                (0..<world.brokers.count).lazy.compactMap { [self] in
                    world.brokers[$0].connect(self, will: nil, isDevice: false)
                }.first
            if let connection {
                world.brokers.of(connection).subscribe(
                    connection, topics: world.plan.users.map { world.topics.down(backend($0.user)) })
            }
        }
        guard let connection else { return answered(nil) }
        requests += 1
        let id = RequestID("gateway-\(requests)")!
        let check = Request.RingCheck(
            callID: push.id.callID, device: device.deviceID, invitation: invitation, isRejected: isRejected)
        waiting[id] = answered
        world.brokers.of(connection).publish(
            connection, topic: world.topics.up(backend(device.userID)),
            payload: UpMessage.request(Request(id: id, body: .ringCheck(check))).encoded())
        world.at(world.now + 5_000) { [self] in waiting.removeValue(forKey: id)?(nil) }
    }

    private func backend(_ user: UserID) -> DeviceAddress { DeviceAddress(userID: user, deviceID: .server) }

    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery) {
        guard case .response(let response) = DownMessage.decode(payload),
            let answered = waiting.removeValue(forKey: response.id)
        else { return }
        guard case .answer(.ring(let state)) = response.outcome else { return answered(nil) }
        answered(state)
    }

    func doubled(_ payload: [UInt8]) {}

    func missed(connection: Int) {}

    func disconnected(connection: Int) { if connection == self.connection { self.connection = nil } }
}
