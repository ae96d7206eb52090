import CallCore
import CallStore
import SignalingProtocol

/// The sightings of brokers, which are a text, and for each broker a list of devices with the times of their last signs
/// of life. A device stays in the list until its presence expires: its presence says where it is.
extension RedisCallStore {
    package func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings {
        for _ in 0..<Bounds.reportAttempts {
            let now = try await now()
            let known = try await storedSightings()
            var found = sightings(known)
            found.take(report, now: now)
            var pipeline = try session.pipeline()
            pipeline.script(.agree, keys: 1, arguments: 2) {
                $0.add(brokersKey)
                $0.add(known)
                $0.add(found.text)
            }
            for sighting in found.sightings { addTrimming(sighting.name, now, to: &pipeline) }
            guard try await session.run(pipeline, isWrite: true)[0].number() == 1 else { continue }
            sightings = found
            return found
        }
        throw StoreError(.unsettled, "\(session.address): no agreement on the brokers")
    }

    /// Removes expired entries from the broker's list, and lets the list expire when the broker is no longer reported.
    private func addTrimming(_ broker: BrokerName, _ now: Milliseconds, to pipeline: inout RedisPipeline) {
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(devicesKey(broker))
            $0.add("-inf")
            $0.add(now - lease)
        }
        pipeline.command("PEXPIRE", 2) {
            $0.add(devicesKey(broker))
            $0.add(lease)
        }
    }

    package func readSightings() async throws(StoreError) { sightings = sightings(try await storedSightings()) }

    private func storedSightings() async throws(StoreError) -> [UInt8] {
        var pipeline = try session.pipeline()
        pipeline.command("GET", 1) { $0.add(brokersKey) }
        return try await session.run(pipeline)[0].value().map { Array($0) } ?? []
    }

    /// Reads stored sightings. Sightings that cannot be read are forgotten, because the next reports make new
    /// sightings.
    private func sightings(_ stored: [UInt8]) -> BrokerSightings {
        BrokerSightings(String(decoding: stored, as: UTF8.self)) ?? BrokerSightings()
    }

    package func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage {
        var scan = try session.pipeline()
        scan.command("ZSCAN", 4) {
            $0.add(devicesKey(broker))
            $0.add(place ?? "0")
            $0.add("COUNT")
            $0.add(Int64(limit))
        }
        let reply = try await session.run(scan)[0]
        guard let parts = reply.array, parts.count == 2, let next = parts[0].bytes?.text else {
            throw StoreError(.failed, "\(session.address): no list of devices: \(reply.unexpected)")
        }
        let names = try parts[1].pairs().compactMap { $0.name.text.flatMap(device) }
        let users = names.map(\.userID).unique
        let listed = Set(names)
        let found = try await devices(of: users).joined().filter {
            $0.isOnline && $0.broker == broker && listed.contains($0.device)
        }
        return DevicePage(found, next: next == "0" ? nil : next)
    }

    func listed(_ device: DeviceAddress) -> String { "\(device.deviceID)/\(device.userID)" }

    private func device(_ name: String) -> DeviceAddress? {
        let parts = name.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let device = DeviceID(String(parts[0])), let user = UserID(String(parts[1])) else {
            return nil
        }
        return DeviceAddress(userID: user, deviceID: device)
    }
}
