import Support
import TLSClient

/// The examination of the certificates that options name.
struct CertificateExamination {
    /// The options that name files of certificates.
    static let options = ["broker-ca", "broker-cert", "devices-cert", "http-cert", "redis-ca", "otlp-ca"]
    /// The rest of a certificate's life that is worth a warning, in days, as in the alert `BellwireCertificateEnds`.
    private static let warnedDays: Int64 = 14

    let arguments: Arguments

    func checks() -> [Check] {
        Self.options.compactMap { option in
            do throws(UsageError) {
                guard let path = try arguments.file(option) else { return nil }
                guard let end = certificateEnd(ofFile: path) else {
                    return .fail(
                        Self.name(option), "\(path) has no certificate that can be read",
                        mend: "give --\(option) a file with certificates in PEM")
                }
                return Self.check(option, end)
            } catch {
                return .fail(Self.name(option), error.description, mend: "let this user read the file")
            }
        }
    }

    /// Returns the check of a certificate that ends at a time, in Unix seconds. `subject` is an option, `broker` or
    /// `store`.
    static func check(_ subject: String, _ end: Int64) -> Check {
        let left = end - WallTime.now.seconds
        let mend = "replace the certificate (docs/operations.md, BellwireCertificateEnds)"
        guard left > 0 else { return .fail(name(subject), "the certificate has ended", mend: mend) }
        let seen = "the certificate is valid for \(left / 86_400) days"
        return left > warnedDays * 86_400 ? .ok(name(subject), seen) : .warn(name(subject), seen, mend: mend)
    }

    private static func name(_ subject: String) -> String { "certificate-\(subject)" }
}
