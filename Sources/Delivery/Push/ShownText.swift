/// What users have written, as a lock screen may show it.
extension String {
    /// Without the characters that nobody sees and that turn round or part what stands beside them: with them one name looks like
    /// another, or the text after a name is read backwards. Nil when nothing is left that can be seen. Joiners stay: some scripts,
    /// and emoji, need them.
    var shown: String? {
        guard unicodeScalars.contains(where: { !$0.isPlain }) else { return self }
        let left = String(String.UnicodeScalarView(unicodeScalars.lazy.filter { !$0.isDeceptive }))
        return left.unicodeScalars.contains(where: \.isSeen) ? left : nil
    }

    /// A user id, of which nothing may be left out: without them it could be another user's.
    var shownID: String {
        guard unicodeScalars.contains(where: { !$0.isPlain }) else { return self }
        let hasSeen = unicodeScalars.contains(where: \.isSeen)
        return String(
            String.UnicodeScalarView(unicodeScalars.lazy.map { $0.isDeceptive || !hasSeen ? "\u{FFFD}" : $0 }))
    }
}

extension Unicode.Scalar {
    /// Of ASCII, and seen.
    fileprivate var isPlain: Bool { (0x21...0x7E).contains(value) }

    /// The same as in the web SDK (clients/web/src/text.ts).
    fileprivate var isDeceptive: Bool {
        switch value {
        case 0x061C, 0x200B, 0x200E, 0x200F, 0x202A...0x202E, 0x2060...0x2069, 0xFEFF: true
        default: false
        }
    }

    /// Something of it is seen, also when it stands alone.
    fileprivate var isSeen: Bool {
        switch properties.generalCategory {
        // No name has one. In texts of invitations they part lines, and nobody takes such a text for another.
        case .control: true
        case .format, .surrogate, .unassigned, .nonspacingMark, .enclosingMark: false
        // U+2800 is a pattern of Braille without a dot.
        default: !properties.isDefaultIgnorableCodePoint && !properties.isWhitespace && value != 0x2800
        }
    }
}
