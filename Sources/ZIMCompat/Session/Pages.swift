internal import SignalingProtocol

/// The service names the place where a list goes on by a text, this SDK by a number.
struct Pages: Sendable {
    /// Of earlier pages the flags count no more.
    static let most = 256

    private var cursors: [Int64: String] = [:]
    private var last: Int64 = 0

    /// 0 when there are no more.
    mutating func flag(_ cursor: String) -> Int64 {
        guard cursor != Answer.lastCursor else { return 0 }
        last += 1
        cursors[last] = cursor
        cursors[last - Int64(Self.most)] = nil
        return last
    }

    /// Of the first page with 0; nil for a flag that was not given, or long ago.
    func cursor(_ flag: Int64) -> String? { flag == 0 ? Answer.lastCursor : cursors[flag] }
}
