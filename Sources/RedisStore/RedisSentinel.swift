import CallCore
import CallStore
import Glibc
import Support

/// Finds the master that sentinels name, and learns from the sentinels when another server becomes the master.
///
/// During a failover the old master takes writes for seconds, and loses these. The sentinel that leads the failover
/// tells before a replica is promoted; from then on until the end of the failover no server is used.
final class RedisSentinel {
    private enum Bounds {
        /// The bound on connecting to a sentinel, and on each of its replies, in milliseconds.
        static let timeout = 200
        /// The pauses between attempts to subscribe to a sentinel that does not answer, in milliseconds. An attempt may
        /// keep the thread for `timeout`.
        static let pauses: ClosedRange<Milliseconds> = 1_000...30_000
        /// The messages of a subscription that are read at a time.
        static let messages = 64
    }

    /// The news of a failover, in their order: a replica is about to be promoted, and the promoted server is the
    /// master.
    private static let channels = ["+failover-state-send-slaveof-noone", "+switch-master"]

    private let address: RedisAddress
    private let sentinels: RedisSentinels
    private var subscriptions: [RedisAddress.Server: Subscription] = [:]

    private struct Subscription {
        var connection: RedisConnection?
        var next: Milliseconds = 0
        var pause = Bounds.pauses.lowerBound
    }

    /// Nil for an address without sentinels.
    init?(_ address: RedisAddress) {
        guard let sentinels = address.sentinels else { return nil }
        self.address = address
        self.sentinels = sentinels
        for server in sentinels.servers { subscriptions[server] = Subscription() }
    }

    /// Connects to the master. Among the servers that the sentinels name, the server with the latest configuration
    /// counts; the server must also take itself for the master.
    /// - Parameter timeout: the bound on connecting to the server, and on each of its replies, in milliseconds.
    func connect(timeout: Int, now: Milliseconds) throws(StoreError) -> RedisConnection {
        // The subscriptions begin before the questions, so that no failover begins in between.
        subscribe(now: now)
        _ = hasNews()
        var latest: Master?
        var reason = "no sentinel answers"
        var isUndecided = false
        for server in sentinels.servers {
            do throws(StoreError) {
                let master = try master(by: server)
                isUndecided = isUndecided || master.isUndecided
                if master.epoch >= latest?.epoch ?? 0 { latest = master }
            } catch {
                reason = error.description
            }
        }
        guard !isUndecided else { throw StoreError(.unreachable, "\(address): a failover is under way") }
        guard let latest else { throw StoreError(.unreachable, "\(address): \(reason)") }
        let connection = try RedisConnection(latest.address, timeout: timeout)
        let role = try connection.run(RedisPipeline.role)[0]
        guard role.isOfMaster else {
            throw StoreError(.unreachable, "\(latest.address): \(role.error ?? "the server is not the master yet")")
        }
        return connection
    }

    /// Whether a sentinel has told of a failover since the connection was made.
    func hasMoved(now: Milliseconds) -> Bool {
        subscribe(now: now)
        return hasNews()
    }

    /// The answer of a sentinel about the master.
    private struct Master {
        let address: RedisAddress
        /// The number of the configuration; a later configuration has a greater number.
        let epoch: Int64
        /// Whether a failover may be under way, so that a replica can become the master at any moment.
        let isUndecided: Bool
    }

    private func master(by server: RedisAddress.Server) throws(StoreError) -> Master {
        let connection = try connection(to: server)
        var pipeline = RedisPipeline()
        for question in ["MASTER", "GET-MASTER-ADDR-BY-NAME"] {
            pipeline.command("SENTINEL", 2) {
                $0.add(question)
                $0.add(sentinels.master)
            }
        }
        let replies = try connection.run(pipeline)
        for reply in replies {
            if let message = reply.error { throw StoreError(.failed, "the master \(sentinels.master): \(message)") }
        }
        var values: [String: String] = [:]
        let texts = (replies[0].array ?? []).map { $0.bytes?.text ?? "" }
        for place in stride(from: 0, to: texts.count - 1, by: 2) { values[texts[place]] = texts[place + 1] }
        let named = (replies[1].array ?? []).map { $0.bytes?.text ?? "" }
        guard named.count == 2, let port = Int(named[1]), (1...65535).contains(port),
            let epoch = values["config-epoch"].flatMap({ Int64($0) }), let flags = values["flags"]
        else { throw replies[0].unexpected }
        // The sentinel that leads a failover names the promoted server as soon as the promotion is certain, before the
        // other sentinels do.
        let isInFailover = flags.split(separator: ",").contains("failover_in_progress")
        let isPromoted = isInFailover && (named[0] != values["ip"] || named[1] != values["port"])
        var server = address.other(host: named[0], port: port)
        (server.username, server.password, server.database) = (address.username, address.password, address.database)
        return Master(
            address: server, epoch: isPromoted ? .max : epoch, isUndecided: isInFailover && !isPromoted)
    }

    private func connection(to server: RedisAddress.Server) throws(StoreError) -> RedisConnection {
        try RedisConnection(address.other(host: server.host, port: server.port), timeout: Bounds.timeout)
    }

    // MARK: Subscriptions

    /// Subscribes to each sentinel without a subscription, if its pause is over.
    private func subscribe(now: Milliseconds) {
        for (server, subscription) in subscriptions where subscription.connection == nil && now >= subscription.next {
            var subscription = subscription
            subscription.connection = try? subscribed(to: server)
            let isDone = subscription.connection != nil
            subscription.next = now + subscription.pause
            subscription.pause =
                isDone ? Bounds.pauses.lowerBound : min(subscription.pause * 2, Bounds.pauses.upperBound)
            subscriptions[server] = subscription
        }
    }

    private func subscribed(to server: RedisAddress.Server) throws(StoreError) -> RedisConnection {
        let connection = try connection(to: server)
        for channel in Self.channels {
            var pipeline = RedisPipeline()
            pipeline.command("SUBSCRIBE", 1) { $0.add(channel) }
            let reply = try connection.run(pipeline)[0]
            guard reply.array?.first?.bytes?.text == "subscribe" else { throw reply.unexpected }
        }
        return connection
    }

    /// Reads all messages of the sentinels. Returns whether a message tells of a failover of this master.
    private func hasNews() -> Bool {
        let open = subscriptions.compactMap { server, subscription in subscription.connection.map { (server, $0) } }
        guard !open.isEmpty else { return false }
        var descriptors = open.map { pollfd(fd: $1.socket.descriptor, events: Int16(POLLIN), revents: 0) }
        guard poll(&descriptors, nfds_t(descriptors.count), 0) > 0 else { return false }
        var isNews = false
        for ((server, connection), descriptor) in zip(open, descriptors) where descriptor.revents != 0 {
            do throws(StoreError) {
                if try connection.messages(Bounds.messages).contains(where: isOfMaster) { isNews = true }
            } catch {
                subscriptions[server]?.connection = nil
            }
        }
        return isNews
    }

    /// The text is `NAME OLD-HOST OLD-PORT HOST PORT` for `+switch-master`, else it ends with `@ NAME HOST PORT`.
    private func isOfMaster(_ message: RedisReply) -> Bool {
        guard let parts = message.array, parts.count == 3, let text = parts[2].bytes?.text else { return false }
        return text.split(separator: " ").contains(Substring(sentinels.master))
    }
}

extension RedisPipeline {
    /// The question for a server's role.
    static var role: RedisPipeline {
        var pipeline = RedisPipeline()
        pipeline.command("ROLE")
        return pipeline
    }
}

extension RedisReply {
    /// Whether a reply to `ROLE` is that of a master.
    var isOfMaster: Bool { array?.first?.bytes?.text == "master" }
}
