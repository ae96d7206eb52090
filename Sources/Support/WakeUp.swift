import Glibc

/// Ends the wait of a thread that polls `descriptor`: any thread may, at any time.
package final class WakeUp: Sendable {
    private let ends: (read: Int32, write: Int32)

    /// Readable after `wake`, until `clear`.
    package var descriptor: Int32 { ends.read }

    /// Nil when there are no descriptors left.
    package init?() {
        var descriptors: [Int32] = [-1, -1]
        let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
        guard socketpair(AF_UNIX, Int32(kind), 0, &descriptors) == 0 else { return nil }
        ends = (descriptors[0], descriptors[1])
    }

    deinit {
        close(ends.read)
        close(ends.write)
    }

    package func wake() {
        // When it is full there is enough to wake by.
        var one: UInt8 = 1
        _ = write(ends.write, &one, 1)
    }

    package func clear() {
        var bytes = (UInt64(0), UInt64(0))
        while read(ends.read, &bytes, 16) == 16 {}
    }
}
