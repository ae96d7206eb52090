import Glibc

/// Runs `body` on a new thread, which the caller must join; returns nil when the system refuses a thread. The system
/// delivers no signals to the new thread: other threads wait for signals, and a broken connection (SIGPIPE) must not
/// end the process.
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    var thread = pthread_t()
    let context = Unmanaged.passRetained(ThreadBody(run: body))
    guard pthread_create(&thread, nil, runThread, context.toOpaque()) == 0 else {
        context.release()
        return nil
    }
    return thread
}

/// Runs `body` on a new thread that the caller does not join; returns false when the system refuses a thread.
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

// The C callback is a file-private function, since a closure would inherit the actor isolation of the surrounding code.
private func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
    Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
    return nil
}
