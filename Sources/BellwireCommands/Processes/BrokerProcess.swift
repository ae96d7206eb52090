import Glibc

/// A mosquitto broker of this program, as a child process on loopback.
package struct BrokerProcess {
    private let process: ChildProcess

    /// Starts the broker and waits until the broker listens. `directory` is the place for its configuration and log.
    package init(port: Int, webSocketPort: Int, directory: String) throws(DeploymentError) {
        for (flag, port) in [("port", port), ("websocket-port", webSocketPort)] where !Loopback.isFree(port) {
            throw DeploymentError(
                "port \(port) on 127.0.0.1 is in use: end what uses it, or choose another with --\(flag)")
        }
        let configurationPath = directory + "/mosquitto.conf"
        try write(Self.configuration(port: port, webSocketPort: webSocketPort), to: configurationPath)
        process = try ChildProcess(
            "mosquitto", try ChildProcess.find("mosquitto"), ["-c", configurationPath],
            logPath: directory + "/mosquitto.log")
        do throws(DeploymentError) {
            try process.waitUntil("listens on port \(port)") { !Loopback.isFree(port) }
        } catch {
            process.stop()
            throw error
        }
    }

    package var pid: pid_t { process.pid }
    /// The reason why the broker ended; nil while the broker runs.
    package var failure: String? { process.failure }
    package func stop() { process.stop() }

    private static func configuration(port: Int, webSocketPort: Int) -> String {
        """
        # Written by bellwire: for this machine only, without passwords.
        listener \(port) 127.0.0.1
        listener \(webSocketPort) 127.0.0.1
        protocol websockets
        # Without this line, mosquitto 2.0 opens a WebSocket listener at all addresses.
        socket_domain ipv4
        allow_anonymous true
        persistence false
        # The kernel ends this process with its parent, but not after a change of user.
        \(geteuid() == 0 ? "user root" : "")
        set_tcp_nodelay true
        max_inflight_messages 1000
        max_queued_messages 100000
        # A load generator subscribes for thousands of devices: more messages may wait for a client than in production.
        max_inflight_bytes 4194304
        max_queued_bytes 67108864
        memory_limit 1073741824
        max_packet_size 2097152
        log_dest stderr
        log_type error
        log_type warning
        log_type notice

        """
    }
}

/// A failure after which `bellwire dev` or `bellwire-lab bench` cannot go on.
package struct DeploymentError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Writes a file, replacing any former contents.
package func write(_ text: String, to path: String) throws(DeploymentError) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    guard descriptor >= 0 else { throw DeploymentError("\(path): \(String(cString: strerror(errno)))") }
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
        throw DeploymentError("\(path): \(String(cString: strerror(errno)))")
    }
}
