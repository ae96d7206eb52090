import CCoroutine

/// Work that can stand still in the middle of a call, such as a coordinator that waits for its store, while the world goes
/// on. Everything stays in one thread, so that the order of things is the queue's alone.
///
/// It must come to its end: what is to be given up is resumed and told so (a dead coordinator's store throws).
final class Coroutine {
    private var body: (() -> Void)?
    private var handle: OpaquePointer?
    private(set) var hasEnded = false

    init(_ body: @escaping () -> Void) {
        self.body = body
        handle = bellwire_coroutine_create(
            { argument in
                guard let argument else { return }
                let coroutine = Unmanaged<Coroutine>.fromOpaque(argument).takeUnretainedValue()
                coroutine.body?()
                coroutine.body = nil
            }, Unmanaged.passUnretained(self).toOpaque())
        precondition(handle != nil, "no memory for another stack")
    }

    deinit { precondition(handle == nil, "given up in the middle of its work") }

    /// Goes on until the work stands still or ends.
    func resume() {
        guard let running = handle, bellwire_coroutine_resume(running) else { return }
        hasEnded = true
        handle = nil
        bellwire_coroutine_destroy(running)
    }

    /// Within the work: stands still until it is resumed.
    func stand() {
        guard let handle else { return }
        bellwire_coroutine_yield(handle)
    }
}
