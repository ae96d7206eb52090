import Basics
import COpenSSL

/// The certificates that the servers of this process's open TLS sessions have shown, for metrics.
package enum PeerCertificates {
    private static let shown = Mutex<[ObjectIdentifier: (peer: String, end: Int64)]>([:])

    static func note(_ session: TLSSession, peer: String, end: Int64) {
        shown.withLock { $0[ObjectIdentifier(session)] = (peer, end) }
    }

    static func forget(_ session: TLSSession) {
        shown.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(session)) }
    }

    /// Returns the earliest end of each peer's certificates, in Unix seconds. A peer has the name that
    /// `TLSSession.Configuration` gives it.
    package static var ends: [String: Int64] {
        shown.withLock { shown in
            Dictionary(shown.values.map { ($0.peer, $0.end) }, uniquingKeysWith: min)
        }
    }
}

/// Returns the earliest end of the certificates in a PEM file, in Unix seconds; nil when the file holds no certificate
/// that can be read.
package func certificateEnd(ofFile path: String) -> Int64? {
    guard let file = BIO_new_file(path, "r") else {
        ERR_clear_error()
        return nil
    }
    return firstEnd(file)
}

/// Returns the earliest end of the certificates in a PEM text, in Unix seconds; nil when the text holds no certificate
/// that can be read.
package func certificateEnd(of text: String) -> Int64? {
    var text = text
    return text.withUTF8 { bytes in BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)).flatMap(firstEnd) }
}

/// Returns the earliest end of the certificates in `file`, and frees `file`.
private func firstEnd(_ file: OpaquePointer) -> Int64? {
    defer { BIO_free(file) }
    var first: Int64?
    while let certificate = PEM_read_bio_X509(file, nil, nil, nil) {
        defer { X509_free(certificate) }
        guard let end = end(of: certificate) else { continue }
        first = min(first ?? end, end)
    }
    // At the end of the file, `PEM_read_bio_X509` leaves an error behind.
    ERR_clear_error()
    return first
}

func end(of certificate: OpaquePointer) -> Int64? {
    let end = bellwire_certificate_end(certificate)
    return end < 0 ? nil : end
}
