import CProcess
import Foundation
import Synchronization
import TemporaryFiles
import Testing

/// A mosquitto of the test's own, on a free port of 127.0.0.1.
final class Broker: Sendable {
    let port: Int
    private let process: pid_t

    /// `directory` must outlast the broker.
    init(_ directory: TemporaryDirectory, _ settings: [String] = ["allow_anonymous true"]) throws {
        port = try Loopback.freePort()
        // Started by root, mosquitto would become a user that cannot read a private temporary directory.
        let user = geteuid() == 0 ? ["user root"] : []
        let lines = user + ["persistence false", "listener \(port) 127.0.0.1"] + settings
        let file = try directory.write("mosquitto-\(port).conf", lines.joined(separator: "\n") + "\n")
        process = Spawner.shared.spawn(["/usr/sbin/mosquitto", "-c", file])
        try #require(Loopback.isListening(port), "mosquitto did not start")
    }

    deinit {
        crash()
        waitpid(process, nil, 0)
    }

    /// Stops the broker: from then on it reads and writes nothing.
    func freeze() { kill(process, SIGSTOP) }

    func crash() { kill(process, SIGKILL) }
}

/// The kernel ends a child with the thread that made the child: this thread lasts as long as the process.
final class Spawner: Sendable {
    static let shared = Spawner()

    private final class Order: Sendable {
        let words: [String]
        let process = Mutex<pid_t>(-1)
        let done = DispatchSemaphore(value: 0)

        init(_ words: [String]) { self.words = words }
    }

    private let orders = Mutex<[Order]>([])
    private let wanted = DispatchSemaphore(value: 0)

    private init() {
        Thread.detachNewThread { [self] in
            while true {
                wanted.wait()
                let order = orders.withLock { $0.removeFirst() }
                let process = Self.start(order.words)
                order.process.withLock { $0 = process }
                order.done.signal()
            }
        }
    }

    func spawn(_ words: [String]) -> pid_t {
        let order = Order(words)
        orders.withLock { $0.append(order) }
        wanted.signal()
        order.done.wait()
        return order.process.withLock(\.self)
    }

    private static func start(_ words: [String]) -> pid_t {
        let arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        let log = open("/dev/null", O_WRONLY | O_CLOEXEC)
        defer { close(log) }
        return bellwire_spawn_bound_child(words[0], arguments, log)
    }
}
