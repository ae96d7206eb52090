import SignalingProtocol

/// The texts of an app's pushes, for invitations without texts of their own. In each text `{name}` stands for the
/// inviter's name (or the user id, if there is no name), `{inviter}` for the user id, and `{media}` for the call's
/// media (or `voice`).
package struct PushTexts: Equatable, Sendable {
    package struct Text: Equatable, Sendable {
        /// An empty text means no title.
        package var title: String
        package var body: String
    }

    package var ring: Text
    package var missed: Text

    package static let standardRing = Text(title: "{name}", body: "Incoming {media} call")
    package static let standardMissed = Text(title: "{name}", body: "Missed call")

    package init(ring: Text = standardRing, missed: Text = standardMissed) {
        self.ring = ring
        self.missed = missed
    }

    static let placeholders = ["{name}", "{inviter}", "{media}"]

    func text(_ kind: PushKind) -> Text? {
        switch kind {
        case .ring: ring
        case .missed: missed
        case .stop: nil
        }
    }
}

/// The visible values of the placeholders.
struct PushFacts {
    let name: String?
    private let inviter: String
    private let media: String

    init(name: String?, inviter: UserID, media: String?) {
        self.name = name?.shown
        self.inviter = inviter.string.shownID
        self.media = media?.shown ?? "voice"
    }

    /// Returns the text with its placeholders replaced in one pass, so that placeholders in the values stay unchanged.
    /// Returns nil when the result is empty.
    func filled(_ text: String) -> String? {
        var filled = ""
        var rest = text[...]
        while let brace = rest.utf8.firstIndex(of: UInt8(ascii: "{")) {
            filled += rest[..<brace]
            rest = rest[brace...]
            if let (placeholder, value) = values.first(where: { rest.utf8.starts(with: $0.0.utf8) }) {
                filled += value
                rest = rest[rest.utf8.index(rest.startIndex, offsetBy: placeholder.utf8.count)...]
            } else {
                filled += "{"
                rest = rest[rest.utf8.index(after: rest.startIndex)...]
            }
        }
        filled += rest
        return filled.isEmpty ? nil : filled
    }

    private var values: [(String, String)] {
        [("{name}", name ?? inviter), ("{inviter}", inviter), ("{media}", media)]
    }
}
