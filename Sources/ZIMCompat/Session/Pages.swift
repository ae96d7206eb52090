internal import SignalingProtocol

/// The flags of list pages: the service names the next page by a text, this SDK by a number.
struct Pages: Sendable {
    /// The bound on valid flags; older flags are forgotten.
    static let most = 256

    private var cursors: [Int64: String] = [:]
    private var last: Int64 = 0

    /// Returns the flag of the page at `cursor`; 0 when there are no more pages.
    mutating func flag(_ cursor: String) -> Int64 {
        guard cursor != Answer.lastCursor else { return 0 }
        last += 1
        cursors[last] = cursor
        cursors[last - Int64(Self.most)] = nil
        return last
    }

    /// Returns the cursor for a flag, 0 for the first page; nil for an unknown or forgotten flag.
    func cursor(_ flag: Int64) -> String? { flag == 0 ? Answer.lastCursor : cursors[flag] }
}
