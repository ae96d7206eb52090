import CallCore

/// Which faults a world has, and how many: drawn from its seed, so that some worlds have few kinds of faults in plenty
/// and others many. Times are in milliseconds, chances per mille.
struct FaultMix: Sendable, Equatable {
    // Of each message on a device's link.
    var loss = 0
    var duplication = 0
    /// The longest delay of a link.
    var delay: Milliseconds = 5

    // Faults of things, by their mean distance; 0 means never.
    var coordinatorCrash: Milliseconds = 0
    var coordinatorFreeze: Milliseconds = 0
    var coordinatorStop: Milliseconds = 0
    var brokerRestart: Milliseconds = 0
    var storeOutage: Milliseconds = 0
    /// Somebody sets the clock of the store's machine.
    var clockStep: Milliseconds = 0
    /// The store answers, and takes no writes.
    var readOnlyStore: Milliseconds = 0
    /// The store loses what was written within the last moments.
    var storeLoss: Milliseconds = 0
    var partition: Milliseconds = 0
    var connectionDrop: Milliseconds = 0
    var appRestart: Milliseconds = 0

    // Of each operation on the store.
    /// It fails and did nothing.
    var storeFailure = 0
    /// It was done, and the answer was lost.
    var lostAnswer = 0
    /// The coordinator dies before or after it.
    var crashAtOperation = 0
    /// The coordinator stands still before or after it, for a short or a long time.
    var freezeAtOperation = 0
    /// The longest time that an operation takes.
    var storeLatency: Milliseconds = 1

    /// The longest time until a claim is given up, for which nobody waits.
    var lateRelease: Milliseconds = 0
    /// How many records nobody can read are due since long ago.
    var unreadableRecords = 0

    // Of devices and their messages, since not everybody uses the SDK.
    /// Devices whose sessions at the broker are persistent.
    var persistentSessions = 0
    /// Devices that connect again with the session of before, as MQTT clients do that reconnect by themselves with one will.
    var keptSessions = 0
    /// Presence that is published with the retain flag.
    var retainedPresence = 0

    // Of the endpoint of webhooks.
    /// It refuses.
    var endpointFailure = 0
    /// It has taken it, and its answer is lost.
    var endpointLostAnswer = 0
    /// The longest time that it takes.
    var endpointLatency: Milliseconds = 5

    // Of the providers of pushes.
    /// They refuse.
    var providerFailure = 0
    /// They ask to be asked later.
    var providerThrottling = 0
    /// They have taken it, or refused it, and the answer is lost.
    var providerLostAnswer = 0
    /// The longest time that they take.
    var providerLatency: Milliseconds = 5
    /// The longest time until there is a connection.
    var providerConnecting: Milliseconds = 0

    /// By which devices' clocks go wrong, in millionths.
    var drift = 0

    /// No faults at all.
    static let none = FaultMix()

    /// Each kind is there or not; of those that are, some are rare and some frequent.
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

    /// Each takes away one of the faults that are drawn for every message and operation. Those of things are planned acts.
    static let calmer: [@Sendable (inout FaultMix) -> Void] = [
        { $0.loss = 0 }, { $0.duplication = 0 }, { $0.delay = 1 }, { $0.storeFailure = 0 }, { $0.lostAnswer = 0 },
        { $0.crashAtOperation = 0 }, { $0.freezeAtOperation = 0 }, { $0.storeLatency = 0 }, { $0.lateRelease = 0 },
        { $0.unreadableRecords = 0 },
        { $0.drift = 0 }, { $0.persistentSessions = 0 }, { $0.retainedPresence = 0 }, { $0.keptSessions = 0 },
        { $0.endpointFailure = 0 }, { $0.endpointLostAnswer = 0 }, { $0.endpointLatency = 1 },
        { $0.providerFailure = 0 }, { $0.providerThrottling = 0 }, { $0.providerLostAnswer = 0 },
        { $0.providerLatency = 1 }, { $0.providerConnecting = 0 },
    ]

    /// What `calmer` has left.
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
