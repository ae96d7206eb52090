import Basics

/// Text that leaves the deployment: without passwords and tokens. In doubt more is withheld.
enum Withheld {
    static let mark = "***"

    /// Returns a setting's value without secrets. Only schemes, hosts and paths of an option that may hold a password
    /// are shown: a value that is no address of these forms may be a password with a slip of the pen.
    static func value(_ text: String, of option: Option) -> String {
        guard option.isSecret else { return self.text(text) }
        if text.hasPrefix("sqlite:") { return text }
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { part -> String? in
            guard let url = ServerURL(String(part)), url.scheme.allSatisfy({ $0.isLetter || $0 == "-" }) else {
                return nil
            }
            let user = url.username == nil && url.password == nil ? "" : "\(mark)@"
            let port = url.port.map { ":\($0)" } ?? ""
            return "\(url.scheme)://\(user)\(url.host)\(port)" + (url.path.isEmpty ? "" : "/\(url.path)")
        }
        return parts.contains(nil) ? mark : parts.compactMap(\.self).joined(separator: ",")
    }

    /// Returns a text without what may be a user and a password in a URL, without tokens (JWT), and without values that
    /// are named as secrets: `password=x`, `"secret": "x"`, `--password x`, `requirepass x`.
    static func text(_ text: String) -> String {
        text
            .replacing(#/(?<scheme>(?i:[a-z][a-z0-9+.-]*):\/\/)[^\/\s]*@/#) { "\($0.output.scheme)\(mark)@" }
            .replacing(#/eyJ[A-Za-z0-9_.-]+/#, with: mark)
            .replacing(#/(?<name>(?i:bearer|basic) )[A-Za-z0-9._~+\/=-]{8,}/#) { "\($0.output.name)\(mark)" }
            .replacing(
                #/(?<name>(?i:[a-z_-]*(?:password|secret|credential|api-?key|token))\\*"? ?[=:] ?)\\*"(?:[^"\\]|\\.)*\\*"?/#
            ) {
                "\($0.output.name)\"\(mark)\""
            }
            .replacing(#/(?<name>(?i:[a-z_-]*(?:password|secret|credential|api-?key|token))=)[^\s",}]+/#) {
                "\($0.output.name)\(mark)"
            }
            .replacing(#/(?<name>(?i:--[a-z-]*(?:password|token|secret)|requirepass|masterauth|auth-pass) )\S+/#) {
                "\($0.output.name)\(mark)"
            }
            .replacing(#/(?<name>(?i:password: ?))\S+/#) { "\($0.output.name)\(mark)" }
    }
}
