import Glibc

/// Runs `body` on a new thread, which must be joined; nil when there can be none. No signal is delivered to it: they are for the
/// threads that wait for them, and a connection that broke must not end the process (SIGPIPE).
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    var thread = pthread_t()
    let context = Unmanaged.passRetained(ThreadBody(run: body))
    guard pthread_create(&thread, nil, runThread, context.toOpaque()) == 0 else {
        context.release()
        return nil
    }
    return thread
}

/// Runs `body` on a new thread that nobody joins; false when there can be none.
@discardableResult
package func startDetachedThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    guard let thread = startThread(body) else { return false }
    pthread_detach(thread)
    return true
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(run: @escaping @Sendable () -> Void) { self.run = run }
}

// A C callback is a file-private function: a closure would inherit the isolation of where it is written.
private func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
    Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
    return nil
}
