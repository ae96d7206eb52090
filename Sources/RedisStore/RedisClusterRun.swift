import CallCore

/// The run of a pipeline on a cluster, stage by stage.
final class RedisClusterRun {
    let pipeline: RedisPipeline
    let exchange: RedisExchange
    var replies: [RedisReply?]
    /// The places, in the pipeline, of the commands of the stage that is under way.
    var stage: Range<Int>
    /// The number of batches without their replies.
    var open = 0
    /// The commands that must be sent again, in order, and the server for a command that another server may take.
    var again: [(place: Int, asking: RedisAddress.Server?)] = []
    /// The number of times that commands of the stage were sent again.
    var rounds = 0
    /// Whether some commands must not be sent again at once.
    var pauses = false
    /// The server's reply that the cluster is down, when a command must be sent again for that reason.
    var downCluster: String?
    /// The end of a pause before commands are sent again.
    var pauseEnd: Milliseconds?

    init(_ pipeline: RedisPipeline, _ exchange: RedisExchange) {
        self.pipeline = pipeline
        self.exchange = exchange
        replies = Array(repeating: nil, count: pipeline.commands.count)
        stage = 0..<0
    }

    /// Goes to the next stage with commands. Returns false after the last.
    func goOn() -> Bool {
        guard stage.upperBound < pipeline.commands.count else { return false }
        let begin = stage.upperBound
        let end = pipeline.stages.first { $0 > begin } ?? pipeline.commands.count
        // `WAIT` at the end is not a stage of its own: each server that gets commands gets `WAIT` after these.
        stage = begin..<end
        rounds = 0
        return true
    }

    /// The place of `WAIT`.
    var waiting: Int? {
        pipeline.commands.last?.route == .written ? pipeline.commands.count - 1 : nil
    }

    /// Keeps the reply to the command at `place`. When several servers reply to a command, an error counts before any
    /// number; without an error, the least number counts.
    func keep(_ reply: RedisReply, at place: Int) {
        guard let known = replies[place] else {
            replies[place] = reply
            return
        }
        if known.error != nil { return }
        if reply.error != nil || reply.integer ?? .max < known.integer ?? .max { replies[place] = reply }
    }
}
