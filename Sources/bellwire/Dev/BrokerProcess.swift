import CProcess
import Glibc

/// A mosquitto of our own, as a child process on loopback. The kernel ends it when this process dies, however it dies.
struct BrokerProcess {
    let pid: pid_t
    private let logPath: String

    /// Starts it. `directory` takes its configuration and log.
    init(port: Int, webSocketPort: Int, directory: String) throws {
        for (flag, port) in [("port", port), ("websocket-port", webSocketPort)] {
            guard isFree(port) else {
                throw DevError(
                    "port \(port) on 127.0.0.1 is in use: end what uses it, or choose another with --\(flag)")
            }
        }
        guard let executable = Self.find() else {
            throw DevError("mosquitto is not installed: apt-get install mosquitto, or use ./scripts/run")
        }
        let configurationPath = directory + "/mosquitto.conf"
        logPath = directory + "/mosquitto.log"
        try write(Self.configuration(port: port, webSocketPort: webSocketPort), to: configurationPath)
        let log = open(logPath, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        guard log >= 0 else { throw DevError("\(logPath): \(String(cString: strerror(errno)))") }
        defer { close(log) }
        let words: [String] = [executable, "-c", configurationPath]
        let arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { arguments.forEach { free($0) } }
        pid = bellwire_spawn_bound_child(executable, arguments, log)
        guard pid > 0 else { throw DevError("mosquitto cannot be started: \(String(cString: strerror(errno)))") }
        try waitUntilListening(port)
    }

    /// A port that it listens on is a port that nobody else can have.
    private func waitUntilListening(_ port: Int) throws {
        for _ in 0..<250 {
            if !isFree(port) { return }
            if let failure { throw DevError(failure) }
            _ = poll(nil, 0, 20)
        }
        stop()
        throw DevError("mosquitto does not listen on port \(port) after 5 s; see \(logPath)")
    }

    /// The last line of its log when it has ended by itself; nil while it runs.
    var failure: String? {
        var status: Int32 = 0
        guard waitpid(pid, &status, WNOHANG) == pid else { return nil }
        return "mosquitto ended by itself; see \(logPath)"
    }

    /// Ends it and waits until it is gone.
    func stop() {
        kill(pid, SIGTERM)
        var status: Int32 = 0
        for _ in 0..<100 {
            if waitpid(pid, &status, WNOHANG) != 0 { return }
            _ = poll(nil, 0, 20)
        }
        kill(pid, SIGKILL)
        waitpid(pid, &status, 0)
    }

    private static func find() -> String? {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/local/sbin"]
        return directories.map { $0 + "/mosquitto" }.first { access($0, X_OK) == 0 }
    }

    private static func configuration(port: Int, webSocketPort: Int) -> String {
        """
        # Written by bellwire dev: for this machine only, without passwords.
        listener \(port) 127.0.0.1
        listener \(webSocketPort) 127.0.0.1
        protocol websockets
        allow_anonymous true
        persistence false
        # A change of user would undo that the kernel ends this process with its parent.
        \(geteuid() == 0 ? "user root" : "")
        set_tcp_nodelay true
        max_inflight_messages 1000
        max_queued_messages 100000
        max_packet_size 2097152
        log_dest stderr
        log_type error
        log_type warning
        log_type notice

        """
    }
}

/// Something that `bellwire dev` cannot go on with.
struct DevError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

private func isFree(_ port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    // As the broker does: a port whose last connections are still fading out is free.
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
}

private func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    guard descriptor >= 0 else { throw DevError("\(path): \(String(cString: strerror(errno)))") }
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
        throw DevError("\(path): \(String(cString: strerror(errno)))")
    }
}
