import CallCore

/// The kinds and rates of a world's faults, drawn from the seed, so that some worlds have few kinds of faults in plenty
/// and others many. Times are in milliseconds, chances per mille.
struct FaultMix: Sendable, Equatable {
    // Chances for each message on a device's link.
    var loss = 0
    var duplication = 0
    /// The longest delay of a link.
    var delay: Milliseconds = 5

    // The mean time between faults of each kind; 0 means never.
    var coordinatorCrash: Milliseconds = 0
    var coordinatorFreeze: Milliseconds = 0
    var coordinatorStop: Milliseconds = 0
    var brokerRestart: Milliseconds = 0
    /// A broker of several dies, stands still, or cannot be reached by a coordinator.
    var fleetFault: Milliseconds = 0
    var storeOutage: Milliseconds = 0
    /// The clock of the store's machine is set to another time.
    var clockStep: Milliseconds = 0
    /// The store answers, but takes no writes.
    var readOnlyStore: Milliseconds = 0
    /// The store loses the writes of the last moments.
    var storeLoss: Milliseconds = 0
    /// A server of the cluster fails over.
    var failover: Milliseconds = 0
    /// Whether failovers lose writes.
    var failoverLoss = false
    /// The slots of a server of the cluster are moved.
    var reshard: Milliseconds = 0
    var partition: Milliseconds = 0
    var connectionDrop: Milliseconds = 0
    var appRestart: Milliseconds = 0

    // Chances for each operation on the store.
    /// The store fails, and does not run the operation.
    var storeFailure = 0
    /// The store runs the operation, and its answer is lost.
    var lostAnswer = 0
    /// The coordinator dies before or after the operation on the store.
    var crashAtOperation = 0
    /// The coordinator freezes before or after the operation on the store, for a short or a long time.
    var freezeAtOperation = 0
    /// The longest time that an operation takes.
    var storeLatency: Milliseconds = 1
    /// The longest extra time of an operation at the slowest server of a cluster, compared with the fastest server.
    var serverSlowness: Milliseconds = 0

    /// The longest time from a commit until its claims are released. No request waits for the release.
    var lateRelease: Milliseconds = 0
    /// The number of unreadable records, which have been due since before the world began.
    var unreadableRecords = 0

    // Chances for devices and their messages, since some apps do not use the SDK.
    /// The share of devices with persistent sessions at the broker.
    var persistentSessions = 0
    /// The share of devices that connect again with the previous session, as MQTT clients do that reconnect by
    /// themselves with a constant will.
    var keptSessions = 0
    /// The share of presence messages that have the retain flag.
    var retainedPresence = 0

    // Faults of the webhook endpoint.
    /// The endpoint refuses.
    var endpointFailure = 0
    /// The endpoint has accepted the webhook event, and its answer is lost.
    var endpointLostAnswer = 0
    /// The longest time that the endpoint takes.
    var endpointLatency: Milliseconds = 5

    // Faults of the push providers.
    /// The provider refuses.
    var providerFailure = 0
    /// The provider asks for a later attempt.
    var providerThrottling = 0
    /// The provider has accepted or refused the push, and its answer is lost.
    var providerLostAnswer = 0
    /// The longest time that a provider takes.
    var providerLatency: Milliseconds = 5
    /// The longest time until there is a connection to a provider.
    var providerConnecting: Milliseconds = 0

    /// The largest drift of a device's clock, in millionths.
    var drift = 0

    /// The mix without any faults.
    static let none = FaultMix()

    /// Draws a mix: each kind of fault is absent, rare or frequent.
    static func drawn(_ random: inout SeededRandom) -> FaultMix {
        var mix = FaultMix()
        func chance(_ values: [Int]) -> Int { random.chance(500) ? random.pick(values) : 0 }
        func distance(_ values: [Milliseconds]) -> Milliseconds { random.chance(450) ? random.pick(values) : 0 }
        mix.loss = chance([10, 50, 200])
        mix.duplication = chance([20, 100, 300])
        mix.delay = random.pick([1, 5, 50, 400])
        mix.coordinatorCrash = distance([2_000, 8_000])
        mix.coordinatorFreeze = distance([3_000, 10_000])
        mix.coordinatorStop = distance([5_000, 15_000])
        mix.brokerRestart = distance([8_000, 20_000])
        mix.storeOutage = distance([6_000, 15_000])
        mix.partition = distance([3_000, 10_000])
        mix.connectionDrop = distance([1_000, 5_000])
        mix.appRestart = distance([3_000, 10_000])
        mix.storeFailure = chance([1, 10, 50])
        mix.lostAnswer = chance([1, 10, 50])
        mix.crashAtOperation = chance([1, 5])
        mix.storeLatency = random.pick([0, 1, 4, 10])
        mix.clockStep = distance([5_000, 20_000])
        mix.readOnlyStore = distance([6_000, 15_000])
        mix.lateRelease = Milliseconds(chance([5, 50, 300]))
        mix.unreadableRecords = random.chance(100) ? 300 : 0
        mix.drift = chance([50, 500])
        mix.persistentSessions = chance([300, 1_000])
        mix.retainedPresence = chance([50, 500])
        return mix
    }

    /// Functions that each remove a kind of fault that is drawn for every message or operation. Faults of coordinators,
    /// networks and the store are planned acts.
    static let calmer: [@Sendable (inout FaultMix) -> Void] = [
        { $0.loss = 0 }, { $0.duplication = 0 }, { $0.delay = 1 }, { $0.storeFailure = 0 }, { $0.lostAnswer = 0 },
        { $0.crashAtOperation = 0 }, { $0.freezeAtOperation = 0 }, { $0.storeLatency = 0 }, { $0.lateRelease = 0 },
        { $0.serverSlowness = 0 },
        { $0.unreadableRecords = 0 },
        { $0.drift = 0 }, { $0.persistentSessions = 0 }, { $0.retainedPresence = 0 }, { $0.keptSessions = 0 },
        { $0.endpointFailure = 0 }, { $0.endpointLostAnswer = 0 }, { $0.endpointLatency = 1 },
        { $0.providerFailure = 0 }, { $0.providerThrottling = 0 }, { $0.providerLostAnswer = 0 },
        { $0.providerLatency = 1 }, { $0.providerConnecting = 0 },
    ]

    /// The remaining faults and times, in words.
    var summary: String {
        let rates = [
            ("messages lost", loss), ("messages doubled", duplication), ("store operations fail", storeFailure),
            ("store answers lost", lostAnswer), ("coordinators die within an operation", crashAtOperation),
            ("coordinators stand still within an operation", freezeAtOperation),
            ("persistent sessions", persistentSessions), ("presence retained", retainedPresence),
            ("sessions kept", keptSessions), ("webhooks refused", endpointFailure),
            ("webhooks' answers lost", endpointLostAnswer), ("pushes refused", providerFailure),
            ("pushes throttled", providerThrottling), ("pushes' answers lost", providerLostAnswer),
        ].filter { $0.1 > 0 }.map { "\($0.0) \($0.1) ‰" }
        return (rates + ["network up to \(delay) ms", "store up to \(storeLatency) ms"]).joined(separator: ", ")
    }
}
