import MQTTClient
import Support
import TLSClient
import Tokens

/// The times at which certificates and this process's own token end, in the Prometheus text format. Files are read
/// again for each page, since an operator replaces them while the process runs; a gateway's own certificate is the
/// certificate in use.
struct ExpiryMetrics: Sendable {
    /// The options that name files of certificates, with these files.
    let files: [(option: String, path: String)]
    let tokenFile: String?
    /// Returns the end of the certificate that `--http-cert` has named when it was last read; nil without HTTPS.
    let servedEnd: @Sendable () -> Int64?

    init(
        _ arguments: Arguments, _ options: [String], servedEnd: @escaping @Sendable () -> Int64? = { nil }
    ) throws(UsageError) {
        self.servedEnd = servedEnd
        var files: [(option: String, path: String)] = []
        for option in options {
            if let path = try arguments.file(option) { files.append((option, path)) }
        }
        self.files = files
        tokenFile = try arguments.file("token-file")
    }

    var text: String {
        var ends = files.compactMap { file in certificateEnd(ofFile: file.path).map { (file.option, $0) } }
        if let end = servedEnd() { ends.append(("http-cert", end)) }
        let peers = PeerCertificates.ends
        for (name, peer) in [("broker", "the broker"), ("store", "Redis")] {
            if let end = peers[peer] { ends.append((name, end)) }
        }
        var text = "# HELP bellwire_certificate_expiry_seconds When a certificate ends, in Unix time: the first in the "
        text += "file of this option, or the certificate that the broker or the store shows.\n"
        text += "# TYPE bellwire_certificate_expiry_seconds gauge\n"
        for (name, end) in ends { text += "bellwire_certificate_expiry_seconds{name=\"\(name)\"} \(end)\n" }
        guard let end = tokenEnd else { return text }
        text += "# HELP bellwire_token_expiry_seconds When this process's own token ends, in Unix time.\n"
        text += "# TYPE bellwire_token_expiry_seconds gauge\n"
        return text + "bellwire_token_expiry_seconds \(end / 1_000)\n"
    }

    private var tokenEnd: Int64? {
        tokenFile.flatMap { readSecret($0) }.flatMap { try? Token(unverified: $0).expiresAt }
    }
}
