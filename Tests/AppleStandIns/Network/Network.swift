@_exported import Dispatch
@_exported import Foundation
import Glibc
import Synchronization

// A stand-in for Apple's Network.framework on Linux: the part of its published interface that BellwireClient uses, over
// TCP sockets. It behaves as documented: a connection that cannot be made waits, handlers run on the connection's
// queue, a write is done in pieces, and a cancelled connection calls its open handlers once more. There is no TLS.

public enum NWError: Error, Equatable, Sendable {
    case posix(POSIXErrorCode)
    case dns(Int32)
    case tls(Int32)
    /// Stands for the cases that this stand-in leaves out.
    case other
}

public enum NWEndpoint: Sendable {
    public struct Host: Sendable, ExpressibleByStringLiteral {
        let name: String

        public init(_ name: String) { self.name = name }
        public init(stringLiteral name: String) { self.name = name }
    }

    public struct Port: Sendable, RawRepresentable {
        public let rawValue: UInt16

        public init?(rawValue: UInt16) { self.rawValue = rawValue }
    }

    case hostPort(host: Host, port: Port)
}

public class NWProtocolOptions {}

public enum NWProtocolTCP {
    public final class Options: NWProtocolOptions {
        public var noDelay = false
        public var connectionTimeout = 0

        override public init() {}
    }
}

public typealias sec_protocol_options_t = AnyObject

public enum NWProtocolTLS {
    public final class Options: NWProtocolOptions {
        override public init() {}

        public var securityProtocolOptions: sec_protocol_options_t { self }
    }
}

public final class NWParameters: @unchecked Sendable {
    let tls: NWProtocolTLS.Options?
    let tcp: NWProtocolTCP.Options

    public init(tls: NWProtocolTLS.Options?, tcp: NWProtocolTCP.Options = NWProtocolTCP.Options()) {
        (self.tls, self.tcp) = (tls, tcp)
    }
}

public final class NWConnection: @unchecked Sendable {
    public enum State: Equatable, Sendable {
        case setup
        case waiting(NWError)
        case preparing
        case ready
        case failed(NWError)
        case cancelled
    }

    public final class ContentContext: Sendable {
        public static let defaultMessage = ContentContext()
        public static let finalMessage = ContentContext()
    }

    public enum SendCompletion: Sendable {
        case contentProcessed(@Sendable (_ error: NWError?) -> Void)
        case idempotent
    }

    private typealias Receipt = @Sendable (Data?, ContentContext?, Bool, NWError?) -> Void

    public var stateUpdateHandler: (@Sendable (_ state: State) -> Void)?
    public var viabilityUpdateHandler: (@Sendable (_ isViable: Bool) -> Void)?

    private let endpoint: NWEndpoint
    private let descriptor = Mutex<Int32?>(nil)
    private let isCancelled = Mutex(false)
    /// Reading and writing block, each in a queue of its own.
    private let reading = DispatchQueue(label: "stand-in.reading")
    private let writing = DispatchQueue(label: "stand-in.writing")
    private var queue: DispatchQueue?
    /// The longest piece of a write.
    private static let piece = 4_096

    /// All connections that were started, for tests that change the path.
    private static let started = Mutex<[WeakConnection]>([])

    private struct WeakConnection: @unchecked Sendable { weak var connection: NWConnection? }

    public init(to endpoint: NWEndpoint, using parameters: NWParameters) { self.endpoint = endpoint }

    deinit { descriptor.withLock { if let open = $0 { close(open) } } }

    /// The connections that exist, for tests.
    public static var all: [NWConnection] { started.withLock { $0.compactMap(\.connection) } }

    /// Tells the owner whether packets can pass, for tests.
    public func changePath(isViable: Bool) { queue?.async { self.viabilityUpdateHandler?(isViable) } }

    public func start(queue: DispatchQueue) {
        self.queue = queue
        Self.started.withLock { list in
            list.removeAll { $0.connection == nil }
            list.append(WeakConnection(connection: self))
        }
        tell(.preparing)
        reading.async { [weak self] in self?.connect() }
    }

    private func connect() {
        guard case .hostPort(let host, let port) = endpoint else { return }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host.name, String(port.rawValue), &hints, &found) == 0, let address = found?.pointee else {
            return tell(.waiting(.dns(-65_554)))
        }
        defer { freeaddrinfo(found) }
        let made = socket(address.ai_family, address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), address.ai_protocol)
        guard Glibc.connect(made, address.ai_addr, address.ai_addrlen) == 0 else {
            let code = POSIXErrorCode(rawValue: errno) ?? .ECONNREFUSED
            close(made)
            return tell(.waiting(.posix(code)))
        }
        descriptor.withLock { $0 = made }
        if isCancelled.withLock(\.self) { return shutDown() }
        tell(.ready)
    }

    public func receive(
        minimumIncompleteLength: Int, maximumLength: Int,
        completion:
            @escaping @Sendable (
                _ content: Data?, _ contentContext: ContentContext?, _ isComplete: Bool, _ error: NWError?
            ) -> Void
    ) {
        reading.async { [self] in
            var bytes = [UInt8](repeating: 0, count: maximumLength)
            guard !isCancelled.withLock(\.self), let open = descriptor.withLock(\.self) else {
                return hand(completion, error: .posix(.ECANCELED))
            }
            let count = recv(open, &bytes, bytes.count, 0)
            if isCancelled.withLock(\.self) { return hand(completion, error: .posix(.ECANCELED)) }
            if count < 0 { return hand(completion, error: .posix(POSIXErrorCode(rawValue: errno) ?? .ECONNRESET)) }
            let content = count > 0 ? Data(bytes.prefix(count)) : nil
            queue?.async { completion(content, .defaultMessage, count == 0, nil) }
        }
    }

    private func hand(_ completion: @escaping Receipt, error: NWError) {
        queue?.async { completion(nil, nil, false, error) }
    }

    public func send(
        content: Data?, contentContext: ContentContext = .defaultMessage, isComplete: Bool = true,
        completion: SendCompletion
    ) {
        writing.async { [self] in
            let error = write(content.map { Array($0) } ?? [])
            if error == nil, contentContext === ContentContext.finalMessage, let open = descriptor.withLock(\.self) {
                shutdown(open, Int32(SHUT_WR))
            }
            guard case .contentProcessed(let processed) = completion else { return }
            queue?.async { processed(error) }
        }
    }

    private func write(_ bytes: [UInt8]) -> NWError? {
        var rest = bytes[...]
        while !rest.isEmpty {
            guard !isCancelled.withLock(\.self), let open = descriptor.withLock(\.self) else {
                return .posix(.ECANCELED)
            }
            let piece = Array(rest.prefix(Self.piece))
            let count = Glibc.send(open, piece, piece.count, Int32(MSG_NOSIGNAL))
            guard count > 0 else { return .posix(POSIXErrorCode(rawValue: errno) ?? .EPIPE) }
            rest = rest.dropFirst(count)
        }
        return nil
    }

    public func cancel() {
        let isFirst = isCancelled.withLock { isCancelled in
            defer { isCancelled = true }
            return !isCancelled
        }
        guard isFirst else { return }
        shutDown()
        tell(.cancelled)
    }

    private func shutDown() {
        descriptor.withLock { if let open = $0 { shutdown(open, Int32(SHUT_RDWR)) } }
    }

    private func tell(_ state: State) {
        queue?.async { [self] in
            // No state follows the cancellation.
            if state == .cancelled || !isCancelled.withLock(\.self) { stateUpdateHandler?(state) }
        }
    }
}
