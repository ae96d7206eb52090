import CallCore
import SignalingProtocol

/// The service's counters since its start; shown by `/metrics`.
package struct Counters: Sendable {
    /// The counters without a label, by the metric's number.
    private var plain = [Int](repeating: 0, count: Metric.allCases.count)
    private var labelled: [Key: Int] = [:]

    private struct Key: Hashable {
        let metric: Metric
        let label: String
    }

    package typealias Metric = CallCore.Metric

    package var durations = Histograms()

    package init() {}

    mutating func add(_ metric: Metric, _ count: Int = 1) { plain[metric.rawValue] += count }

    mutating func add(_ metric: Metric, _ label: String, _ count: Int = 1) {
        labelled[Key(metric: metric, label: label), default: 0] += count
    }

    /// Adds the counts of a committed decision.
    mutating func add(_ counts: Counts) {
        for entry in counts.entries {
            if let label = entry.label { add(entry.metric, label, entry.count) } else { add(entry.metric, entry.count) }
        }
    }

    mutating func set(_ metric: Metric, to count: Int) { plain[metric.rawValue] = count }

    /// Returns the count over all labels.
    package subscript(metric: Metric) -> Int {
        plain[metric.rawValue] + labelled.filter { $0.key.metric == metric }.values.reduce(0, +)
    }

    package subscript(metric: Metric, label: String) -> Int { labelled[Key(metric: metric, label: label)] ?? 0 }

    /// Returns the counts by label, in the order of the labels.
    func labels(of metric: Metric) -> [(label: String, count: Int)] {
        labelled.filter { $0.key.metric == metric }.map { ($0.key.label, $0.value) }.sorted { $0.0 < $1.0 }
    }
}

extension Metric {
    /// The metric's name in `/metrics`.
    var name: String {
        switch self {
        case .messagesReceived: "bellwire_messages_received_total"
        case .messagesSent: "bellwire_messages_sent_total"
        case .messagesDropped: "bellwire_messages_dropped_total"
        case .messagesRefused: "bellwire_messages_refused_total"
        case .limited: "bellwire_limited_total"
        case .requests: "bellwire_requests_total"
        case .responses: "bellwire_responses_total"
        case .eventsSent: "bellwire_events_sent_total"
        case .eventsResent: "bellwire_events_resent_total"
        case .eventsTrimmed: "bellwire_events_trimmed_total"
        case .acks: "bellwire_acks_total"
        case .staleAcks: "bellwire_stale_acks_total"
        case .signals: "bellwire_signals_total"
        case .peerMessages: "bellwire_peer_messages_total"
        case .traceEntriesDropped: "bellwire_trace_entries_dropped_total"
        case .heartbeats: "bellwire_heartbeats_total"
        case .presence: "bellwire_presence_total"
        case .deadlines: "bellwire_deadlines_served_total"
        case .callsCreated: "bellwire_calls_created_total"
        case .callsEnded: "bellwire_calls_ended_total"
        case .commits: "bellwire_commits_total"
        case .conflicts: "bellwire_commit_conflicts_total"
        case .unreadableRecords: "bellwire_unreadable_records_total"
        case .storeRoundTrips: "bellwire_store_round_trips_total"
        case .storeErrors: "bellwire_store_errors_total"
        case .storeClockSteps: "bellwire_store_clock_steps_total"
        case .listEntriesMended: "bellwire_list_entries_mended_total"
        case .recordsCleaned: "bellwire_records_cleaned_total"
        case .lookups: "bellwire_lookups_total"
        case .refusedEarly: "bellwire_refused_early_total"
        case .resendsPutOff: "bellwire_resends_put_off_total"
        case .resendsHeldBack: "bellwire_resends_held_back_total"
        case .deadLetters: "bellwire_webhook_backlog_given_up_total"
        case .revisionsDeleted: "bellwire_webhook_deleted_total"
        case .callsNotPushed: "bellwire_push_calls_forgotten_total"
        case .publicationsDropped: "bellwire_publications_dropped_total"
        case .publicationsRefused: "bellwire_publications_refused_total"
        case .messagesRelayed: "bellwire_messages_relayed_total"
        case .brokerConnections: "bellwire_broker_connections_total"
        case .mediaSessions: "bellwire_media_sessions_total"
        case .mediaSessionsFailed: "bellwire_media_sessions_failed_total"
        }
    }

    /// The name of the metric's label, or nil for a metric without labels.
    var label: String? {
        switch self {
        case .messagesRefused: "code"
        case .limited: "limit"
        case .requests: "type"
        case .responses: "outcome"
        case .eventsSent, .eventsResent: "event"
        case .presence: "state"
        case .refusedEarly: "why"
        case .callsEnded, .publicationsRefused: "reason"
        case .peerMessages: "state"
        case .deadLetters, .revisionsDeleted: "endpoint"
        case .mediaSessions, .mediaSessionsFailed: "server"
        case .signals, .traceEntriesDropped, .messagesReceived, .messagesSent, .messagesDropped, .eventsTrimmed,
            .acks, .staleAcks, .heartbeats,
            .deadlines,
            .callsCreated, .callsNotPushed, .commits, .conflicts, .unreadableRecords, .storeRoundTrips, .storeErrors,
            .storeClockSteps, .listEntriesMended, .recordsCleaned, .lookups, .resendsPutOff, .resendsHeldBack,
            .publicationsDropped, .messagesRelayed, .brokerConnections:
            nil
        }
    }

    var help: String {
        switch self {
        case .messagesReceived: "Messages received from devices."
        case .messagesSent: "Messages published to devices."
        case .messagesDropped: "Messages dropped unserved because they had waited too long."
        case .messagesRefused: "Messages answered by an error, by its code."
        case .limited: "Times that a user met a limit, by its name."
        case .requests: "Requests received, by type."
        case .responses: "Responses sent, by outcome: ok or the error code."
        case .eventsSent: "Events sent for the first time, by name."
        case .eventsResent: "Events sent again, by name."
        case .eventsTrimmed: "Events sent without extendedData because they would have been too large."
        case .acks: "Acknowledgments received."
        case .staleAcks: "Acknowledgments of a revision below the current one."
        case .signals: "Signals passed on to devices."
        case .peerMessages: "Peer messages, by the state that they reached."
        case .traceEntriesDropped: "Entries of timelines that could not be written."
        case .heartbeats: "Heartbeats received."
        case .presence: "Presence messages, by their effect."
        case .deadlines: "Calls whose deadline was served."
        case .callsCreated: "Calls created."
        case .callsEnded: "Calls ended, by reason."
        case .commits: "Records written."
        case .conflicts: "Commits that lost against another writer and were decided again."
        case .unreadableRecords: "Requests on, and deadlines of, records that are damaged or of a later version."
        case .storeRoundTrips: "Times that the coordinator waited for the store."
        case .storeErrors: "Times that the store could not answer."
        case .storeClockSteps:
            "Times that the clock of the store's machine was found to be set, by any coordinator."
        case .listEntriesMended: "Entries of users' lists of calls that were left without their call."
        case .recordsCleaned: "Records removed because their retention ended."
        case .lookups: "Queries of decisions that were not foreseen."
        case .deadLetters: "Webhooks that became dead letters unsent: too many waited, or the endpoint is off."
        case .callsNotPushed:
            "Calls whose pushes were dropped: no process with push took them in time, or too many calls waited."
        case .revisionsDeleted:
            "Dead letters, and then waiting entries, that were deleted for want of room or after 7 days."
        case .resendsPutOff:
            "Calls whose resends were put off by a second, since the coordinator was overloaded."
        case .resendsHeldBack:
            "Due resends that were held back, since their device acknowledges late or not at all."
        case .refusedEarly: "Messages refused or dropped for want of time (late) or of room (full)."
        case .publicationsDropped: "Messages not published: the broker was away or they were stale."
        case .publicationsRefused: "Messages that the broker refused to take, by its reason."
        case .messagesRelayed: "Messages published for a coordinator without a connection to their broker."
        case .brokerConnections: "Connections made to brokers."
        case .mediaSessions: "Media sessions given to devices, by media server."
        case .mediaSessionsFailed:
            "Media sessions that could not be made, since the room's name or the token is too long, by media server."
        }
    }
}
