import Glibc

/// A socket pair by which any thread may, at any time, end the wait of a thread that polls `descriptor`.
package final class WakeUp: Sendable {
    private let ends: (read: Int32, write: Int32)

    /// The descriptor to poll. The descriptor is readable from a call of `wake` until `clear`.
    package var descriptor: Int32 { ends.read }

    /// Returns nil when the process has no descriptors left.
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
        // A full buffer already holds a byte that wakes the polling thread, so a failed write does no harm.
        var one: UInt8 = 1
        _ = write(ends.write, &one, 1)
    }

    package func clear() {
        var bytes = (UInt64(0), UInt64(0))
        while read(ends.read, &bytes, 16) == 16 {}
    }
}
