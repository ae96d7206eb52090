import FoundationEssentials
import Glibc
import Testing

/// A certificate that signs itself, and its key.
final class CertificateFiles: Sendable {
    private let directory: String
    var certificate: String { directory + "/server.crt" }
    var key: String { directory + "/server.key" }
    /// The content of the certificate's file.
    var text: String { get throws { try String(contentsOfFile: certificate, encoding: .utf8) } }

    init(_ alternativeNames: String = "DNS:localhost,IP:127.0.0.1") throws {
        var name = Array("/tmp/bellwire-https-XXXXXX".utf8CString)
        directory = String(cString: try #require(mkdtemp(&name)))
        let status = system(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=server' "
                + "-addext 'subjectAltName=\(alternativeNames)' "
                + "-keyout \(directory)/server.key -out \(directory)/server.crt 2>/dev/null")
        try #require(status == 0)
    }

    deinit {
        unlink(certificate)
        unlink(key)
        rmdir(directory)
    }
}
