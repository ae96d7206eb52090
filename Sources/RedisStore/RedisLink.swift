import CallCore
import CallStore
import Support

/// The receiver of a session's commands: a server, or the servers of a cluster.
protocol RedisLink: AnyObject {
    /// The socket to wait for.
    var socket: StoreSocket { get }
    /// The reason why the link cannot be used any more.
    var failure: StoreError? { get }
    /// Whether a server has closed the connection, as after a restart; false when a time limit has passed.
    var isClosedByPeer: Bool { get }
    /// The connections to all servers with keys.
    var servers: [RedisConnection] { get }

    /// Sends all commands. Replies come in the order of the commands; `answered` is called with the replies.
    func send(_ pipeline: RedisPipeline, _ answered: (([RedisReply]) -> Void)?) throws(StoreError) -> RedisExchange
    /// Sends all commands and waits for all replies.
    func run(_ pipeline: RedisPipeline) throws(StoreError) -> [RedisReply]
    /// Reads replies, and sends bytes that could not be sent before.
    func receive()
    /// Ends the link: no task waits for replies any longer.
    func fail(_ error: StoreError)
    /// Whether the server of the key is the server whose clock is the store's.
    func hasClock(for key: RedisKey) -> Bool
}

extension RedisLink {
    func send(_ pipeline: RedisPipeline) throws(StoreError) -> RedisExchange { try send(pipeline, nil) }

    /// Waits for the replies to an exchange.
    func replies(to exchange: RedisExchange) async throws(StoreError) -> [RedisReply] {
        if exchange.result == nil { await withUnsafeContinuation { exchange.waiting = $0 } }
        guard let result = exchange.result else { throw StoreError(.unreachable, "the replies are lost") }
        return try result.get()
    }
}

/// Commands that were sent, and the replies to them once they have been read.
final class RedisExchange {
    let count: Int
    let deadline: Milliseconds
    private(set) var replies: [RedisReply] = []
    private(set) var result: Result<[RedisReply], StoreError>?
    /// The task that waits for the replies.
    fileprivate var waiting: UnsafeContinuation<Void, Never>?
    /// Called with the replies, whether a task waits or not.
    private let answered: (([RedisReply]) -> Void)?

    init(_ count: Int, deadline: Milliseconds, _ answered: (([RedisReply]) -> Void)?) {
        self.count = count
        self.deadline = deadline
        self.answered = answered
    }

    /// The number of replies that have not come.
    var missing: Int { count - replies.count }

    func take(_ replies: [RedisReply]) {
        if self.replies.isEmpty { self.replies = replies } else { self.replies += replies }
    }

    func finish(_ result: Result<[RedisReply], StoreError>) {
        guard self.result == nil else { return }
        self.result = result
        if case .success(let replies) = result { answered?(replies) }
        waiting.take()?.resume()
    }
}
