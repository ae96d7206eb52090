import FoundationEssentials
import Testing

/// The lists of the places where each clock is read (docs/decisions/0024). A message to a receiver that has a clock of
/// its own carries wall time, and the type `WallTime` keeps the store's time out of such messages. A new place that
/// reads time or turns it into the other kind stands in no list here, and must be judged before it is listed.
@Suite struct ClockListTests {
    /// The files in which a `WallTime` is made of a number. Outside simulations no other file may make a `WallTime`, so
    /// that no store's time becomes wall time.
    @Test func theStoresTimeNeverBecomesWallTime() throws {
        let made = try places(of: "WallTime(milliseconds:", in: nil)
        #expect(
            made == [
                "Support/WallTime.swift": 2,  // the wall clock itself, and a later moment of it
                "BellwireSimulator/SimulatedCoordinator.swift": 3,  // all clocks of a simulation are one
                "Delivery/Push/APNs.swift": 1,  // what Apple says
            ])
    }

    /// Times that are written to the outside are wall times or durations: these are the places that take a moment at
    /// all.
    @Test func whatTakesAMomentToTellOthers() throws {
        var found: [String: Int] = [:]
        for target in ["Delivery/Media", "Delivery/Webhooks", "Delivery/Push", "Delivery/Traces", "Tokens"] {
            for word in [": WallTime", "now: Milliseconds", "now: Int64", "at: Milliseconds"] {
                for (file, count) in try places(of: word, in: target) { found["\(file) \(word)", default: 0] += count }
            }
        }
        #expect(
            found == [
                "Delivery/Media/MediaServer.swift : WallTime": 1,  // iat, nbf, exp
                "Delivery/Media/MediaSettings.swift : WallTime": 1,  // the same
                "Delivery/Media/MediaServer.swift now: Int64": 1,  // the same
                "Delivery/Media/RoomCloser.swift now: Int64": 1,  // the boot clock
                "Delivery/Media/RoomDuty.swift now: Int64": 1,  // exp
                "Delivery/Media/RoomDuty.swift : WallTime": 2,  // exp, and when a member left
                "Delivery/Webhooks/WebhookSignature.swift : WallTime": 1,  // webhook-timestamp
                "Delivery/Webhooks/RetryDelay.swift now: Milliseconds": 1,  // when to try again
                "Delivery/Push/APNs.swift : WallTime": 2,  // apns-expiration; the moment in a 410
                "Delivery/Push/APNs.swift now: Milliseconds": 1,  // how long it still rings
                "Delivery/Push/AccessTokens.swift now: Milliseconds": 3,  // how long Google's token lasts
                "Delivery/Push/FCM.swift : WallTime": 1,  // iat, exp
                "Delivery/Push/FCM.swift now: Milliseconds": 1,  // ttl
                "Delivery/Push/JSONWebToken.swift : WallTime": 7,  // iat, exp, and when they are made anew
                "Delivery/Push/OutgoingPush.swift now: Milliseconds": 2,  // how long it still rings
                "Delivery/Push/PushContent.swift now: Milliseconds": 2,  // expiresIn; createdAt of a test
                "Delivery/Push/PushProviders.swift : WallTime": 8,
                "Delivery/Push/PushProviders.swift now: Milliseconds": 9,
                "Delivery/Push/WebPush.swift now: Milliseconds": 1,  // ttl
                "Delivery/Traces/Span.swift : WallTime": 1,  // the times of spans
                "Delivery/Traces/SpanWorker.swift now: Int64": 3,  // the boot clock
                "Delivery/Traces/EndedCalls.swift now: Int64": 2,  // the boot clock
                "Tokens/TokenVerifier.swift now: Int64": 1,  // given by the gateway and the plugin: the wall clock
                "Tokens/TurnServers.swift : WallTime": 1,  // the username of a credential
            ])
    }

    /// Outside the stores and the decisions about calls, the store's time serves these purposes, of which none is told
    /// to a stranger.
    @Test func whoReadsTheStoresTime() throws {
        var found = try places(of: "storeTime", in: "Delivery/Workers")
        for target in ["Delivery/Media", "Delivery/Traces"] {
            for (file, count) in try places(of: "storeTime", in: target) { found[file, default: 0] += count }
        }
        for (file, count) in try places(of: "store.now()", in: nil) { found[file, default: 0] += count }
        #expect(
            found == [
                "CallStore/ForwardingStore.swift": 1,  // passed on
                "Coordinator/Service/BatchService.swift": 1,
                "Delivery/Media/RoomCloser.swift": 4,  // when to try again
                "Delivery/Media/RoomDuty.swift": 3,  // how long ago a member left; in the room of doctor none has
                "Delivery/Traces/Span.swift": 2,  // how long ago a step was
                "Delivery/Traces/SpanWorker.swift": 2,  // the same
                "Delivery/Workers/LeasedWorker.swift": 1,  // made of the store's clock
                "Delivery/Workers/Deliverer.swift": 4,  // ages, and when to try again
                "Delivery/Workers/Pusher.swift": 2,  // the age of what waits
                "Delivery/Workers/Pusher+answers.swift": 4,  // when to try again, and timelines
                "Delivery/Workers/Pusher+holding.swift": 2,  // what is due, for how long
                "Delivery/Workers/Pusher+looking.swift": 3,  // the same
                "Gateway/Reader.swift": 3,  // answers by the service's clock, and the audit log
                "bellwire-lab/Bench/LiveCalls.swift": 1,
                "BellwireCommands/Doctor/StoreExamination.swift": 1,  // whether the store answers
                "BellwireCommands/Push/PushTest.swift": 1,  // for how long
                "BellwireCommands/Webhooks/WebhooksCommand.swift": 1,  // for how long the oldest has waited
            ])
    }

    @Test func whoReadsTheWallClock() throws {
        var found = try places(of: "SystemClock.wall", in: nil)
        for (file, count) in try places(of: "{ .now }", in: nil) { found[file, default: 0] += count }
        for (file, count) in try places(of: "wall: .now", in: nil) { found[file, default: 0] += count }
        #expect(
            found == [
                "Support/WallTime.swift": 1,
                "CallStore/StoreClock.swift": 1,  // by which a store's time begins
                // These places begin a store's time in memory.
                "BellwireTestKit/MemoryCoordinator.swift": 1, "BellwireCommands/Serve/StoreAddress.swift": 1,
                "Coordinator/Observing/Log.swift": 1,  // when a line was written
                "Coordinator/Service/ServiceContext.swift": 1,  // TURN; a token's end, told by the service's clock
                "Delivery/Media/RoomCloser.swift": 1,  // tokens of requests
                "Delivery/Traces/SpanWorker.swift": 1,  // the times of spans
                "Delivery/Workers/Deliverer.swift": 1,  // signatures
                "Delivery/Workers/Pusher.swift": 1,  // tokens, expiries
                "BellwireCommands/Push/SinglePush.swift": 2,  // the same
                "Gateway/BearerCheck.swift": 3,  // whether a token has ended; tokens that are made
                "BellwireBrokerAuth/Plugin.swift": 5,  // whether a token has ended
                "BellwireCommands/Options/RefusalCause.swift": 1, "BellwireCommands/Tokens/TokenCommand.swift": 1,
                "BellwireCommands/Dev/DevGateway.swift": 1,  // tokens that are made
                "BellwireCommands/Backup/BackupCommand.swift": 1,  // when a backup was made, for people
                "BellwireCommands/BugReport/BugReportCommand.swift": 1,  // the same
                "BellwireCommands/Top/TopCommand.swift": 1,  // ends of certificates
            ])
    }

    /// Counts how often the text stands in each file of a target, or of all targets.
    private func places(of text: String, in target: String?) throws -> [String: Int] {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        let folder = URL(filePath: "\(root)/Sources").resolvingSymlinksInPath().path()
        var found: [String: Int] = [:]
        for file in try FileManager.default.subpathsOfDirectory(atPath: folder)
        where file.hasSuffix(".swift") && target.map({ file.hasPrefix($0 + "/") }) ?? true {
            let source = try String(contentsOf: URL(filePath: "\(folder)/\(file)"), encoding: .utf8)
            let count = source.split(separator: "\n").filter { line in
                !line.drop(while: { $0 == " " }).hasPrefix("//") && line.contains(text)
            }.count
            if count > 0 { found[file] = count }
        }
        return found
    }
}
