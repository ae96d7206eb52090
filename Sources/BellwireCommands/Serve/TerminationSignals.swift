import Glibc
import Support

/// Calls a function at SIGINT and SIGTERM. The call runs on a thread of its own and not in a signal handler, so that
/// the function may call any other function.
///
/// Must be created before other threads start: these threads inherit the blocked signals, so that only the waiting
/// thread receives the signals.
struct TerminationSignals {
    private let set: sigset_t

    init() {
        var set = sigset_t()
        sigemptyset(&set)
        // `sigwait` would receive a blocked signal even if the signal is ignored.
        if !isIgnored(SIGINT) { sigaddset(&set, SIGINT) }
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

/// Whether the parent process made this process ignore a signal: `nohup` does so with SIGHUP, and a shell without job
/// control with the SIGINT of background commands.
func isIgnored(_ signal: Int32) -> Bool {
    var action = sigaction()
    guard sigaction(signal, nil, &action) == 0, let handler = action.__sigaction_handler.sa_handler else {
        return false
    }
    return unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
}
