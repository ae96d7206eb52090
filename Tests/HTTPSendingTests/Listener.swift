import Glibc
import Synchronization

/// Takes TCP connections at a port of 127.0.0.1, each on a thread of its own, until the listener is gone.
final class Listener: Sendable {
    private struct State {
        var open: Set<Int32> = []
        var accepted = 0
        var isClosed = false
    }

    let port: Int
    private let descriptor: Int32
    private let shared: Shared

    /// The state that outlives the listener, for the threads.
    private final class Shared: Sendable {
        let state = Mutex(State())
        let serve: @Sendable (Int32) -> Void

        init(_ serve: @escaping @Sendable (Int32) -> Void) { self.serve = serve }
    }

    /// Connections so far.
    var accepted: Int { shared.state.withLock { $0.accepted } }

    init(_ serve: @escaping @Sendable (Int32) -> Void) {
        let descriptor: Int32
        (descriptor, port) = boundSocket()
        listen(descriptor, 64)
        let shared = Shared(serve)
        self.descriptor = descriptor
        self.shared = shared
        startTestThread { Self.accept(descriptor, shared) }
    }

    /// Shuts all sockets down for which threads wait, so that the threads end.
    deinit {
        shared.state.withLock { state in
            state.isClosed = true
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private static func accept(_ listener: Int32, _ shared: Shared) {
        defer { close(listener) }
        while true {
            let descriptor = Glibc.accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            let isClosed = shared.state.withLock { state in
                state.open.insert(descriptor)
                state.accepted += 1
                return state.isClosed
            }
            if isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) }
            startTestThread {
                shared.serve(descriptor)
                shared.state.withLock { _ = $0.open.remove(descriptor) }
                close(descriptor)
            }
        }
    }
}

/// Returns a socket with a port of 127.0.0.1 that no other process has, and the port.
func boundSocket() -> (descriptor: Int32, port: Int) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let port = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            bind(descriptor, address, length)
            getsockname(descriptor, address, &length)
        }
        return Int(UInt16(bigEndian: pointer.pointee.sin_port))
    }
    return (descriptor, port)
}

/// Runs `body` on a thread without signals: a client that has gone must not end the tests (SIGPIPE).
private func startTestThread(_ body: @escaping @Sendable () -> Void) {
    final class Box {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    pthread_create(
        &thread, nil,
        { context in
            var all = sigset_t()
            sigfillset(&all)
            pthread_sigmask(SIG_BLOCK, &all, nil)
            Unmanaged<Box>.fromOpaque(context!).takeRetainedValue().body()
            return nil
        }, Unmanaged.passRetained(Box(body)).toOpaque())
    pthread_detach(thread)
}
