import CallCore
import CallStore
import SignalingProtocol

/// The roll calls that the coordinators have given to this coordinator (`BrokerSightings`): the coordinator goes
/// through the devices of a broker that is away, or is back. A coordinator that takes a roll call over begins anew.
/// This does no harm: a call whose caller is known as lost stays unchanged, and a device is asked again only if the
/// device was not heard since.
struct RollCalls {
    struct RollCall {
        let name: BrokerReport.RollCallName
        /// The store time at which a coordinator last heard the broker.
        let seen: Milliseconds
        /// The place behind the devices that are done; nil at the beginning.
        var place: String?
        var isFinished = false
        /// The number of attempts at this page that left calls unserved.
        var attempts = 0
    }

    /// After this many attempts the roll call goes on behind a page: a call that cannot be served keeps its timeout.
    private static let attemptsPerPage = 3

    private var rollCalls: [RollCall] = []

    /// The roll calls that are finished and not yet reported as finished.
    var finished: [BrokerReport.RollCallName] { rollCalls.filter(\.isFinished).map(\.name) }

    /// The roll call to go on with. A broker that is away comes before a broker that is back: callers wait for it.
    var next: RollCall? {
        let open = rollCalls.filter { !$0.isFinished }
        return open.first { $0.name.isAway } ?? open.first
    }

    /// Takes the roll calls that this coordinator has, as the sightings say.
    mutating func adopt(_ sightings: BrokerSightings, of coordinator: String) {
        rollCalls = sightings.sightings.filter { $0.rollCall?.coordinator == coordinator }.map { sighting in
            let name = BrokerReport.RollCallName(sighting)
            return rollCalls.first { $0.name == name } ?? RollCall(name: name, seen: sighting.seen)
        }
    }

    /// Notes that calls of the page were left unserved. Returns whether the page should be tried again.
    mutating func triesAgain(_ name: BrokerReport.RollCallName) -> Bool {
        guard let index = rollCalls.firstIndex(where: { $0.name == name }) else { return false }
        rollCalls[index].attempts += 1
        return rollCalls[index].attempts < Self.attemptsPerPage
    }

    /// Goes on behind a page of devices; `place` is nil behind the last page.
    mutating func advance(_ name: BrokerReport.RollCallName, to place: String?) {
        guard let index = rollCalls.firstIndex(where: { $0.name == name }) else { return }
        rollCalls[index].place = place
        rollCalls[index].attempts = 0
        rollCalls[index].isFinished = place == nil
    }
}
