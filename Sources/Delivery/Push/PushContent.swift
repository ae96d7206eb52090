import CallCore
import SignalingProtocol

/// The content of a push for the app (docs/protocol.md, section 7); the same on every platform.
package struct PushContent: Equatable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case ring
        case stop
        case missed
        /// A push without a call, for an operator's test that pushes arrive.
        case test

        package init(_ kind: PushKind) {
            switch kind {
            case .ring: self = .ring
            case .stop: self = .stop
            case .missed: self = .missed
            }
        }
    }

    package let kind: Kind
    package let callID: CallID?
    package let revision: Int?
    package let inviter: UserID?
    package let name: String?
    package private(set) var avatarURL: String?
    package let media: String?
    package let mode: CallMode?
    package let createdAt: Milliseconds
    /// The end of the ringing, or its planned end.
    package let expiresAt: Milliseconds
    /// How long the phone still rings after the push leaves, in milliseconds; only in a `ring` that leaves.
    package private(set) var expiresIn: Milliseconds?
    package private(set) var title: String?
    package private(set) var body: String?
    package private(set) var payload: String?
    /// The URL of the ring check.
    package let check: String?

    /// - Parameters:
    ///   - member: the member that is rung, was rung, or missed the call.
    ///   - said: the texts of the invitation, used without placeholders.
    ///   - texts: the app's texts, for texts that `said` leaves out.
    ///   - check: `PushSettings.check`.
    package init(
        _ kind: PushKind, of call: Call, to member: Member, said: Request.Push?, texts: PushTexts, check: String?
    ) {
        let inviter = member.invitedBy ?? call.inviter
        let profile = call.entry(inviter)
        let facts = PushFacts(name: profile?.name, inviter: inviter, media: call.media)
        let text = texts.text(kind)
        self.kind = Kind(kind)
        callID = call.callID
        revision = call.revision
        self.inviter = inviter
        name = facts.name
        avatarURL = profile?.avatarURL
        media = call.media
        mode = call.mode
        createdAt = call.createdAt
        expiresAt = member.expiresAt ?? call.createdAt + Milliseconds(call.timeout) * 1_000
        let own = said?.text(kind)
        title = own?.title?.shownText ?? text.flatMap { facts.filled($0.title) }
        body = own?.content?.shownText ?? text.flatMap { facts.filled($0.body) }
        payload = said?.payload
        self.check = check
    }

    /// Makes the content of a test push.
    package init(testAt now: Milliseconds) {
        kind = .test
        callID = nil
        revision = nil
        inviter = nil
        name = nil
        avatarURL = nil
        media = nil
        mode = nil
        createdAt = now
        expiresAt = now + Self.testLife
        title = "Bellwire"
        body = "This is a test"
        payload = nil
        check = nil
    }

    private static let testLife: Milliseconds = 60_000

    /// Returns the content for leaving at `now`, by the store's time. A device counts down from `expiresIn`, and so
    /// need not compare its clock with the service's clock.
    func leaving(at now: Milliseconds) -> PushContent {
        var content = self
        if kind == .ring { content.expiresIn = max(0, expiresAt - now) }
        return content
    }

    /// The content as a JSON object.
    package var json: [UInt8] { JSONWriter.object { write(to: &$0) } }

    func write(to writer: inout JSONWriter) {
        writer.field("kind", kind.rawValue)
        writer.field("callID", callID?.string)
        writer.field("revision", revision)
        writer.field("inviter", inviter?.string)
        writer.field("name", name)
        writer.field("avatarURL", avatarURL)
        writer.field("media", media)
        writer.field("mode", mode?.rawValue)
        writer.field("createdAt", createdAt)
        writer.field("expiresAt", expiresAt)
        writer.field("expiresIn", expiresIn)
        writer.field("title", title)
        writer.field("body", body)
        writer.field("payload", payload)
        writer.field("check", check)
    }
}

extension Request.Push {
    /// The texts of the invitation for a push of this kind: `ring` and `missed` have separate texts.
    fileprivate func text(_ kind: PushKind) -> Missed? {
        switch kind {
        case .ring: Missed(title: title, content: content)
        case .missed: missed
        case .stop: nil
        }
    }
}

extension String {
    /// An empty text stays empty and means "no text"; a text without visible characters counts as left out.
    fileprivate var shownText: String? { isEmpty ? self : shown }
}

extension PushContent {
    /// Returns the content shortened to `limit` bytes: `payload` is left out first, then `avatarURL`, then the end of
    /// `body` and of `title`, by whole characters.
    /// - Parameter size: returns the bytes that a content takes on a platform.
    func trimmed(to limit: Int, _ size: (PushContent) -> Int) -> PushContent {
        func fits(_ content: PushContent) -> Bool { size(content) <= limit }
        var content = self
        if fits(content) { return content }
        content.payload = nil
        if fits(content) { return content }
        content.avatarURL = nil
        if fits(content) { return content }
        content.shorten(\.body, fits)
        if fits(content) { return content }
        content.shorten(\.title, fits)
        return content
    }

    /// Shortens a text to as many characters as fit.
    private mutating func shorten(_ text: WritableKeyPath<PushContent, String?>, _ fits: (PushContent) -> Bool) {
        guard let whole = self[keyPath: text] else { return }
        var least = 0
        var most = whole.count
        while least < most {
            let middle = (least + most + 1) / 2
            self[keyPath: text] = String(whole.prefix(middle))
            if fits(self) { least = middle } else { most = middle - 1 }
        }
        self[keyPath: text] = least == 0 ? nil : String(whole.prefix(least))
    }
}
