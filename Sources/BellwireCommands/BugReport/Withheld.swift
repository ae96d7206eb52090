/// Text that leaves the deployment: without passwords and tokens.
enum Withheld {
    static let mark = "***"

    /// Returns a setting's value without secrets. Of an option that may hold a password, only an address is shown.
    static func value(_ text: String, of option: Option) -> String {
        guard option.isSecret, !text.contains("://"), !text.hasPrefix("sqlite:") else { return self.text(text) }
        return mark
    }

    /// Returns a text without the passwords of URLs, without tokens (JWT), and without values that are named as
    /// secrets.
    static func text(_ text: String) -> String {
        text
            .replacing(#/(?<scheme>[a-z][a-z0-9+.-]*:\/\/)[^\/\s@]*@/#) { "\($0.output.scheme)\(mark)@" }
            .replacing(#/eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/#, with: mark)
            .replacing(#/(?<name>(?i:bearer|basic) )[A-Za-z0-9._~+\/=-]{8,}/#) { "\($0.output.name)\(mark)" }
            .replacing(#/(?<name>(?i:password|secret|credential|api-?key|token)(?:=|" ?: ?)"?)[^\s",}]+/#) {
                "\($0.output.name)\(mark)"
            }
    }
}
