import CallCore
import CallStore
import Coordinator
import Delivery
import Glibc
import HTTPSending
import SignalingProtocol
import Support
import Synchronization

/// The media servers of a process: the settings, the watch over the key files, and the worker that closes rooms.
struct MediaDelivery {
    let settings: MediaSettings
    /// The worker in the coordinator's thread; nil if the worker has a thread of its own, and without rooms to close.
    var companion: (any Companion)? { place?.companion }
    /// The function that must be called with the ids of calls whose rooms have changed.
    var onRooms: ([RecordID]) -> Void { place?.committed ?? { _ in } }
    /// Returns the metrics in the Prometheus text format; nil without rooms to close.
    let metrics: (@Sendable () -> String)?
    /// Nil without rooms to close.
    private let place: DeliveryPlace?
    private let watch: MediaKeyWatch

    /// Returns nil without `file`, which `--media` names. `store`: the coordinator's store; nil in a process without a
    /// coordinator. `another`: opens the same store again, for a thread.
    init?(
        _ file: String?, _ command: String, delivers: Bool, beside store: (any CallStore)? = nil, log: Log,
        another: () throws -> any CallStore
    ) throws {
        guard let file else { return nil }
        let settings = try Self.settings(file, command)
        self.settings = settings
        watch = MediaKeyWatch(settings.keyFiles, log)
        guard !settings.outboxes.isEmpty else {
            (place, metrics) = (nil, nil)
            return
        }
        let kind = DeliveryKind(
            flag: "--media", deliveries: "rooms", waits: "rooms are not closed: the store fails",
            goesOn: "rooms are closed again: the store is back", command: command)
        let sender = try DeliveryPlace.sender(trusting: settings.certificateAuthorityFile, file, kind)
        let own = try DeliveryStore<any OutboxStore & RecordStore>(kind, beside: store, another: another) {
            $0 as? any OutboxStore & RecordStore
        }
        let closer = RoomCloser(
            own.store, settings, sender: sender, delivers: delivers, inOneStep: own.inOneStep,
            now: SystemClock.boot.milliseconds
        ) { "m" + randomHex(bytes: 8) }
        closer.onNews = { server, reason in
            if let reason {
                log(
                    .warning, "a media server refuses to close rooms: the requests are tried again",
                    ["server": server, "reason": reason])
            } else {
                log(.info, "a media server closes rooms again", ["server": server])
            }
        }
        let report = closer.report
        metrics = { report.metrics }
        place = try DeliveryPlace(closer, kind, hasThread: own.hasThread, own.store, sender, log)
    }

    /// Reads the settings. Throws on a mistake in the file, so that the process does not start.
    static func settings(_ file: String, _ command: String) throws(UsageError) -> MediaSettings {
        try DeliveryOptions.settings("--media", command) { () throws(SettingsError) in try MediaSettings(path: file) }
    }

    /// Sets the media servers of a coordinator.
    func configure(_ configuration: inout Coordinator.Configuration) {
        configuration.settings.media = settings.use
        configuration.mediaSession = { [settings] in settings.session(for: $0, at: $1) }
        configuration.endpoints += settings.outboxes
    }

    func stop() {
        watch.stop()
        place?.stop()
    }
}

/// Reads the key files again when they change, on a thread of its own.
private final class MediaKeyWatch: Sendable {
    /// The interval at which the files are read, in milliseconds. A new key must be seen twice (`MediaKeyFile`), which
    /// takes less than a second.
    private static let look: Int32 = 400

    private let isStopped = Atomic(false)

    init(_ files: [MediaKeyFile], _ log: Log) {
        startDetachedThread { [self] in
            while !isStopped.load(ordering: .relaxed) {
                _ = poll(nil, 0, Self.look)
                for file in files {
                    switch file.look() {
                    case .readAgain: log(.info, "a media server's key was read again", ["file": file.path])
                    case .unusable(let reason):
                        log(
                            .error, "a media server's key file cannot be used: the former key stays in use",
                            ["file": file.path, "reason": reason])
                    case nil: break
                    }
                }
            }
        }
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }
}
