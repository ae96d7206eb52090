import Glibc
import SystemThreads

/// Turns SIGINT and SIGTERM into a call on a thread of its own, where anything may be done.
///
/// Must be made before other threads are started: they inherit the blocked signals, so that only the waiting thread
/// gets them.
struct TerminationSignals {
    private let set: sigset_t

    init() {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGINT)
        sigaddset(&set, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        self.set = set
    }

    /// Calls `body` at each of these signals.
    func onSignal(_ body: @escaping @Sendable () -> Void) {
        startDetachedThread { [set] in
            var set = set
            var number: Int32 = 0
            while sigwait(&set, &number) == 0 { body() }
        }
    }
}
