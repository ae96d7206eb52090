import CallCore

/// A setting of a store by which calls are lost.
package enum StoreHazard: Hashable, Sendable, CustomStringConvertible {
    /// Redis evicts keys of live calls when its memory is full.
    case evicts(policy: String)
    /// A restart of Redis loses all calls.
    case keepsNothing
    /// The clocks of two servers of Redis Cluster differ, in milliseconds.
    case clocksDiffer(behind: String, ahead: String, by: Milliseconds)

    /// The hazards' names, as labels of a metric.
    package static let kinds = ["evicts", "keepsNothing", "clocksDiffer"]

    package var kind: String {
        switch self {
        case .evicts: "evicts"
        case .keepsNothing: "keepsNothing"
        case .clocksDiffer: "clocksDiffer"
        }
    }

    /// The setting, its effect and the remedy.
    package var description: String {
        switch self {
        case .evicts(let policy):
            "maxmemory-policy is \(policy): Redis evicts keys of live calls when its memory is full. Set it to noeviction"
        case .keepsNothing:
            "appendonly is no: a restart of Redis loses the calls since its last snapshot. Set it to yes"
        case .clocksDiffer(let behind, let ahead, let difference):
            "the clock of the Redis server \(behind) is \(difference) ms behind that of \(ahead): writes fail at servers that differ "
                + "by 500 ms from the master of {p0}. Synchronize the clocks of all servers"
        }
    }
}
