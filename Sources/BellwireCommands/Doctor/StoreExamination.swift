import CallCore
import CallStore
import SignalingProtocol
import Support
import TLSClient

/// The examination of the store: whether the store answers, what a crash loses, how full the store is, and whose clock
/// differs.
struct StoreExamination {
    /// The difference between the store's clock and this machine's that is worth a warning, in milliseconds.
    private static let clockDifference: Milliseconds = 1_000

    private let store: any CallStore
    private let name: String

    init(_ store: any CallStore) {
        self.store = store
        name = store.summary
    }

    func checks() -> [Check] {
        do throws(StoreError) {
            _ = try WorkExecutor().complete(store) { [store] () async throws(StoreError) in
                _ = try await store.now()
                return try await store.load([Self.noCall])
            }
        } catch {
            return [.fail("store", "\(name): \(error)", mend: Self.mend(error))] + (store.fill == nil ? [] : [room])
        }
        let version = store.version.map { ", \($0)" } ?? ""
        return [.ok("store", "\(name) answers\(version)"), durability, clock, room] + store.hazards.map(check)
            + (PeerCertificates.ends["Redis"].map { [CertificateExamination.check("store", $0)] } ?? [])
    }

    static func mend(_ error: StoreError) -> String {
        if error.code == .foreign { return "use another store, or the --topic-root of this store's deployment" }
        if error.description.contains("OOM ") { return "the store is full: raise maxmemory of Redis" }
        if error.description.contains("no answer in time") {
            return "the store hangs, or its disk is slow: look at the disk and the processor of its machine"
        }
        return "start the store, and check this machine's network, --store, its password and --redis-ca"
    }

    private static let noCall = CallID("doctor")!

    private var durability: Check {
        guard let durability = store.durability else {
            return .warn(
                "durability", "the settings of Redis cannot be read", mend: "ACL SETUSER … +config|get for Redis' user")
        }
        guard durability.contains("loses nothing") || !durability.contains("crash may lose everything") else {
            return .warn("durability", durability, mend: "redis-cli CONFIG SET appendonly yes, appendfsync everysec")
        }
        return .ok("durability", durability)
    }

    /// The share of the store's room that is worth a warning, as in the alert `BellwireStoreFills`.
    private static let fullShare = 0.8

    private var room: Check {
        guard let fill = store.fill else {
            return .warn("room", "how full the store is cannot be read", mend: "ACL SETUSER … +info for Redis' user")
        }
        let used = "\(fill.bytes / 1_048_576) MiB are used"
        guard let limit = fill.limit else {
            return .warn("room", "\(used), without a limit", mend: "redis-cli CONFIG SET maxmemory 1gb")
        }
        let seen = "\(used) of \(limit / 1_048_576) MiB"
        guard Double(fill.bytes) < Self.fullShare * Double(limit) else {
            return .warn("room", seen, mend: "give the store more room, or shorten --retain-history")
        }
        return .ok("room", seen)
    }

    private var clock: Check {
        let skew = store.clockSkew
        guard abs(skew) > Self.clockDifference else { return .ok("clock", "the store's clock differs by \(skew) ms") }
        return .warn(
            "clock", "the store's clock differs from this machine's by \(skew) ms",
            mend: "synchronize the clocks of both machines (timedatectl set-ntp true)")
    }

    private func check(_ hazard: StoreHazard) -> Check {
        let mend =
            switch hazard {
            case .evicts: "redis-cli CONFIG SET maxmemory-policy noeviction"
            case .keepsNothing: "redis-cli CONFIG SET appendonly yes"
            case .clocksDiffer: "timedatectl set-ntp true on every machine with Redis"
            }
        return .fail("store-\(hazard.kind)", hazard.description, mend: mend)
    }
}
