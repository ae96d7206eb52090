import Basics
import Glibc
import TLSClient

/// TLS over the socket of a connection to Redis. No method blocks.
final class RedisTLS {
    private let session: TLSSession
    private let descriptor: Int32
    /// Commands that are not encrypted yet, and encrypted bytes that the socket has not taken.
    private var plaintext = ByteQueue()
    private var ciphertext = ByteQueue()
    private var input = ByteQueue()
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    /// Whether the server has closed the connection.
    private(set) var isClosedByPeer = false

    /// - Parameter descriptor: the connected socket, which does not block.
    init(_ address: RedisAddress, descriptor: Int32) throws(TLSError) {
        session = try TLSSession(
            .init(host: address.host, certificateAuthorityFile: address.certificateAuthorityFile, peer: "Redis"))
        self.descriptor = descriptor
    }

    func append(_ command: UnsafeBufferPointer<UInt8>) { plaintext.append { $0.append(contentsOf: command) } }

    /// Encrypts the commands and sends as many bytes as the socket takes now. Returns false while encrypted bytes wait
    /// for the socket; commands that wait for the handshake are sent after the next `read`.
    func write() throws(TLSError) -> Bool {
        var count: Int
        repeat {
            count = plaintext.count
            try session.send(&plaintext, &ciphertext)
        } while plaintext.count < count && !plaintext.isEmpty
        while !ciphertext.isEmpty {
            let sent = ciphertext.read { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else {
                if sent < 0, errno == EINTR { continue }
                if sent < 0, errno == EAGAIN { return false }
                throw broken()
            }
            ciphertext.take(sent)
        }
        return true
    }

    /// Reads the bytes that have arrived, and gives `take` the decrypted bytes.
    func read(_ take: (UnsafeBufferPointer<UInt8>) -> Void) throws(TLSError) {
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else {
            if count < 0, errno == EAGAIN || errno == EINTR { return }
            throw broken()
        }
        let isOpen: Bool
        do throws(TLSError) {
            isOpen = try buffer.withUnsafeBufferPointer { bytes throws(TLSError) in
                try session.receive(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[..<count])), &input)
            }
        } catch {
            // Redis gets the alert that names the fault.
            session.takeOutgoing(&ciphertext)
            _ = ciphertext.read { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            throw error
        }
        input.read(take)
        input.take(input.count)
        if !isOpen {
            isClosedByPeer = true
            throw TLSError(isTrust: false, "Server closed the connection")
        }
    }

    private func broken() -> TLSError {
        let number = errno
        isClosedByPeer = true
        let reason = number == 0 ? "Server closed the connection" : String(cString: strerror(number))
        return TLSError(isTrust: false, reason)
    }
}
