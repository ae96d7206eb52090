import SignalingProtocol

/// The media servers of calls, by the calls' `media` (docs/media.md, `use`). The settings of the servers are elsewhere:
/// deciding needs to know only whether a call has a media server.
package struct MediaUse: Sendable, Equatable {
    private let named: [ByteString: String]
    /// The server of calls without `media`, and of calls with any other value; nil for none.
    private let other: String?

    /// - Parameters:
    ///   - named: the server of each value of `media`.
    ///   - other: the server of all other calls.
    package init(_ named: [(media: String, server: String)], other: String?) {
        self.named = Dictionary(named.map { (ByteString($0.media), $0.server) }) { $1 }
        self.other = other
    }

    /// Returns the name of the server; nil for a call without a media server.
    package func server(for media: String?) -> String? { media.flatMap { named[ByteString($0)] } ?? other }

    /// Returns the patterns of the rooms at `server`, in the form in which the store keeps patterns (`RoomPatterns`);
    /// nil when no call uses the server.
    package func patterns(ofRoomsAt server: String) -> String? {
        guard other == server || named.values.contains(server) else { return nil }
        let isOther = other == server
        let values = named.sorted { $0.key < $1.key }
        let words = values.filter { $0.value == server }.map { RoomPatterns.word($0.key.string) }
        let excluded = isOther ? values.filter { $0.value != server }.map { RoomPatterns.exclusion($0.key.string) } : []
        return (words + (isOther ? [RoomPatterns.others] : []) + excluded).joined(separator: " ")
    }
}

/// The facts about a member that a media session depends on. The member is accepted on the device.
package struct MediaMember: Sendable, Equatable {
    package let callID: CallID
    package let mode: CallMode
    package let media: String?
    package let inviter: UserID
    package let device: DeviceAddress
    package let name: String?
    package let avatarURL: String?

    package init(
        callID: CallID, mode: CallMode, media: String?, inviter: UserID, device: DeviceAddress, name: String? = nil,
        avatarURL: String? = nil
    ) {
        self.callID = callID
        self.mode = mode
        self.media = media
        self.inviter = inviter
        self.device = device
        self.name = name
        self.avatarURL = avatarURL
    }
}
