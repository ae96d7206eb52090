import Basics
import Glibc
import MQTTProtocol
import Support
import TLSClient

/// The bytes to and from the broker: TCP, or TLS over TCP if the address says so. A connected stream never blocks.
final class BrokerStream {
    let descriptor: Int32
    private let tls: TLSSession?
    /// The encrypted bytes that the socket has not taken.
    private var ciphertext = ByteQueue()
    /// The bound on waiting encrypted bytes; at the bound, TLS gets no more to encrypt.
    private static let mostCiphertext = 256 * 1024
    private let buffer: UnsafeMutableRawBufferPointer

    /// Connects over TCP. The name lookup, and connecting to each address, take at most `milliseconds`.
    init(_ configuration: MQTTConnection.Configuration, within milliseconds: Int32) throws(MQTTError) {
        let broker = configuration.broker
        let tls = try Self.tls(configuration)
        guard let descriptor = Self.connect(broker, within: milliseconds) else {
            guard errno != ENXIO else {
                throw MQTTError(kind: .unreachable, message: "\(broker): no address of \(broker.host) is known")
            }
            throw MQTTError(kind: .unreachable, message: "\(broker): \(String(cString: strerror(errno)))")
        }
        self.descriptor = descriptor
        self.tls = tls
        buffer = .allocate(byteCount: 64 * 1024, alignment: 16)
        var isOn: Int32 = 1
        // Without this option, a round trip waits for a delayed TCP acknowledgment: 44 ms instead of 0.2 ms.
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Returns nil for a broker without TLS.
    private static func tls(_ configuration: MQTTConnection.Configuration) throws(MQTTError) -> TLSSession? {
        guard configuration.broker.isTLS else { return nil }
        do throws(TLSError) {
            return try TLSSession(
                .init(
                    host: configuration.broker.host, certificateAuthorityFile: configuration.certificateAuthorityFile,
                    certificateFile: configuration.certificateFile,
                    certificateKeyFile: configuration.certificateKeyFile, peer: "the broker"))
        } catch {
            throw MQTTError(error)
        }
    }

    deinit {
        close(descriptor)
        buffer.deallocate()
    }

    private static func connect(_ broker: BrokerAddress, within milliseconds: Int32) -> Int32? {
        let addresses = NameLookup.addresses(of: broker.host, within: Int(milliseconds))
        errno = addresses.isEmpty ? ENXIO : EHOSTUNREACH
        for host in addresses {
            var hints = addrinfo()
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            hints.ai_flags = AI_NUMERICHOST
            var found: UnsafeMutablePointer<addrinfo>?
            guard getaddrinfo(host, String(broker.port), &hints, &found) == 0, let address = found?.pointee else {
                continue
            }
            defer { freeaddrinfo(found) }
            if let descriptor = connect(address, within: milliseconds) { return descriptor }
        }
        return nil
    }

    private static func connect(_ address: addrinfo, within milliseconds: Int32) -> Int32? {
        let kind = address.ai_socktype | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.ai_family, kind, address.ai_protocol)
        guard descriptor >= 0 else { return nil }
        if Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 { return descriptor }
        var failure = errno
        if failure == EINPROGRESS {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            failure = ETIMEDOUT
            if poll(&waiting, 1, milliseconds) > 0 {
                var length = socklen_t(MemoryLayout<Int32>.size)
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &length)
                if failure == 0 { return descriptor }
            }
        }
        close(descriptor)
        errno = failure
        return nil
    }

    /// Whether bytes wait for the socket, and not for the TLS handshake: bytes of `output`, or with TLS their
    /// ciphertext.
    func waitsForSocket(_ output: ByteQueue) -> Bool { tls == nil ? !output.isEmpty : !ciphertext.isEmpty }

    /// Whether the socket has taken all encrypted bytes.
    var isFlushed: Bool { ciphertext.isEmpty }

    /// Sends as much of `output` as the socket takes now, and removes the sent bytes. Returns whether any bytes were
    /// sent.
    func send(_ output: inout ByteQueue) throws(MQTTError) -> Bool {
        guard let tls else { return try write(&output) }
        var hasSent = false
        repeat {
            let count = output.count
            if ciphertext.count < Self.mostCiphertext { try encrypt(&output, tls) }
            hasSent = try write(&ciphertext) || hasSent
            guard output.count < count else { break }
        } while ciphertext.isEmpty && !output.isEmpty
        return hasSent
    }

    private func encrypt(_ output: inout ByteQueue, _ tls: TLSSession) throws(MQTTError) {
        do throws(TLSError) { try tls.send(&output, &ciphertext) } catch { throw MQTTError(error) }
    }

    private func write(_ queue: inout ByteQueue) throws(MQTTError) -> Bool {
        var hasSent = false
        while !queue.isEmpty {
            let count = queue.read { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0 {
                if errno == EINTR { continue }
                guard errno == EAGAIN else {
                    throw MQTTError(kind: .lost, message: String(cString: strerror(errno)))
                }
                break
            }
            queue.take(count)
            hasSent = true
        }
        return hasSent
    }

    /// The result of reading.
    enum Reading {
        /// `more`: the socket may have more bytes. `none`: the socket has no bytes now.
        case more, none
        /// The broker has closed the connection.
        case end
    }

    /// Appends the bytes that have arrived to `input`, up to a bound.
    func receive(_ input: inout ByteQueue) throws(MQTTError) -> Reading {
        let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
        guard count > 0 else {
            if count == 0 { return .end }
            guard errno == EAGAIN || errno == EINTR else {
                throw MQTTError(kind: .lost, message: String(cString: strerror(errno)))
            }
            return .none
        }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        if let tls {
            do throws(TLSError) {
                guard try tls.receive(bytes, &input) else { return .end }
            } catch {
                // The server gets TLS's alert, which names the fault.
                tls.takeOutgoing(&ciphertext)
                _ = try? write(&ciphertext)
                throw MQTTError(error)
            }
        } else {
            input.append { $0.append(contentsOf: bytes) }
        }
        return count == buffer.count ? .more : .none
    }

    /// Ends sending.
    func finish() {
        if let tls {
            tls.close(&ciphertext)
            _ = try? write(&ciphertext)
        }
        shutdown(descriptor, Int32(SHUT_WR))
    }
}

extension MQTTError {
    fileprivate init(_ error: TLSError) {
        self.init(kind: error.isTrust ? .tls : .lost, message: error.description)
    }
}
