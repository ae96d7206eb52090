import CallCore
import CallStore
import SignalingProtocol

/// Serves the devices of a broker that is away, or is back (docs/protocol.md, section 1, "Several brokers").
extension BatchService {
    private enum RollCallBounds {
        static let devicesPerPage = 128
        /// The pause between two pages of devices that are asked for their presence, in milliseconds: each device
        /// connects anew.
        static let askingPause: Milliseconds = 250
        /// The pause after a failure of the store, in milliseconds.
        static let failurePause: Milliseconds = 500
    }

    /// Serves a page of devices of the coordinator's next roll call. Returns the milliseconds until the next page.
    /// `canReach` says whether messages reach a broker.
    func callRoll(_ canReach: (BrokerIndex) -> Bool) async -> Milliseconds {
        guard let rollCall = context.rollCalls.next else { return RollCallBounds.failurePause }
        // A question that is dropped would not be asked again.
        if !rollCall.name.isAway, !(settings.brokers.firstIndex(of: rollCall.name.broker).map(canReach) ?? false) {
            return RollCallBounds.failurePause
        }
        do throws(StoreError) {
            try await readClock()
            let page = try await store.devices(
                at: rollCall.name.broker, after: rollCall.place, limit: RollCallBounds.devicesPerPage)
            let devices = page.devices.filter(\.isAway)
            if rollCall.name.isAway {
                let areAllTold = try await serveLost(devices, since: rollCall.seen)
                guard areAllTold || !context.rollCalls.triesAgain(rollCall.name) else {
                    return RollCallBounds.failurePause
                }
            } else {
                devices.forEach(askForPresence)
                // A caller whose device does not answer this question is lost after the usual grace.
                _ = try await serveLost(devices, since: now)
            }
            context.rollCalls.advance(rollCall.name, to: page.next)
            return rollCall.name.isAway ? 0 : RollCallBounds.askingPause
        } catch {
            context.failed(error)
            return RollCallBounds.failurePause
        }
    }

    /// Tells the calls of devices that were lost with their broker. Returns whether all calls were told.
    private func serveLost(_ devices: [DevicePresence], since: Milliseconds) async throws(StoreError) -> Bool {
        context.counters.add(.presence, PresenceMessage.OfflineReason.lost.rawValue, devices.count)
        return try await tellCalls(of: devices.map { ($0.device, .lost) }, since: since)
    }

    /// Asks a device for a new session: the device was online before its broker was away, and was not heard since.
    private func askForPresence(_ device: DevicePresence) {
        let error = SignalingError(
            .sessionOver, "the broker was away: a new session is needed", session: device.session)
        refuse(error, DeviceSession(device.device, id: device.session, broker: device.broker))
    }
}
