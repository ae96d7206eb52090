/// Texts that users have written, made safe for a lock screen.
extension String {
    /// The text without invisible characters that reverse or separate the characters beside them: such characters make
    /// one name look like another, or reverse the text after a name. Nil when no visible character is left. Joiners
    /// stay, because some scripts and emoji need joiners.
    var shown: String? {
        guard unicodeScalars.contains(where: { !$0.isPlain }) else { return self }
        let left = String(String.UnicodeScalarView(unicodeScalars.lazy.filter { !$0.isDeceptive }))
        return left.unicodeScalars.contains(where: \.isSeen) ? left : nil
    }

    /// A user id with each deceptive character replaced by U+FFFD. Such characters are not removed, because the rest
    /// could be the id of another user.
    var shownID: String {
        guard unicodeScalars.contains(where: { !$0.isPlain }) else { return self }
        let hasSeen = unicodeScalars.contains(where: \.isSeen)
        return String(
            String.UnicodeScalarView(unicodeScalars.lazy.map { $0.isDeceptive || !hasSeen ? "\u{FFFD}" : $0 }))
    }
}

extension Unicode.Scalar {
    /// Whether the character is visible ASCII.
    fileprivate var isPlain: Bool { (0x21...0x7E).contains(value) }

    /// Whether the character is invisible and deceptive. The web SDK has the same list (clients/web/src/text.ts).
    fileprivate var isDeceptive: Bool {
        switch value {
        case 0x061C, 0x200B, 0x200E, 0x200F, 0x202A...0x202E, 0x2060...0x2069, 0xFEFF: true
        default: false
        }
    }

    /// Whether the character is visible even when alone.
    fileprivate var isSeen: Bool {
        switch properties.generalCategory {
        // Names have no control characters. In the texts of invitations, control characters separate lines, without
        // deceiving a reader.
        case .control: true
        case .format, .surrogate, .unassigned, .nonspacingMark, .enclosingMark: false
        // U+2800 is a Braille pattern without dots.
        default: !properties.isDefaultIgnorableCodePoint && !properties.isWhitespace && value != 0x2800
        }
    }
}
