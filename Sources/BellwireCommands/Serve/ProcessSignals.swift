import Glibc
import Support

/// Calls functions at signals: at SIGINT and SIGTERM to end, at SIGHUP to read files again. The calls run on a thread
/// of their own and not in a signal handler, so that the functions may call any other function.
///
/// Must be created before other threads start: these threads inherit the blocked signals, so that only the waiting
/// thread receives the signals.
struct ProcessSignals {
    private let set: sigset_t

    /// - Parameter reloads: whether SIGHUP reads files again; else SIGHUP ends the process, as a closed terminal does.
    init(reloads: Bool) {
        var set = sigset_t()
        sigemptyset(&set)
        // `sigwait` would receive a blocked signal even if the signal is ignored.
        if !isIgnored(SIGINT) { sigaddset(&set, SIGINT) }
        if reloads, !isIgnored(SIGHUP) { sigaddset(&set, SIGHUP) }
        sigaddset(&set, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        self.set = set
    }

    /// Calls `end` at SIGINT and SIGTERM, and `reload` at SIGHUP.
    func onSignal(end: @escaping @Sendable () -> Void, reload: @escaping @Sendable () -> Void = {}) {
        startDetachedThread { [set] in
            var set = set
            var number: Int32 = 0
            while sigwait(&set, &number) == 0 { number == SIGHUP ? reload() : end() }
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
