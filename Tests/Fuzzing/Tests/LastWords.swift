import Glibc

/// Prints the present input when a trap ends the process: only the process itself could have told its input later.
enum LastWords {
    private static let capacity = 256
    /// Allocated once, so that the handler only reads.
    nonisolated(unsafe) private static let buffer: UnsafeMutablePointer<UInt8> = {
        let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        buffer.initialize(repeating: 0, count: capacity)
        for signal in [SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS, SIGFPE] { install(signal) }
        return buffer
    }()

    static func set(_ words: String) {
        let line = Array((words.isEmpty ? "" : "\nended by a trap: \(words)\n").utf8.prefix(capacity - 1)) + [0]
        for (index, byte) in line.enumerated() { buffer[index] = byte }
    }

    private static func install(_ signal: Int32) {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { signal in
            write(STDERR_FILENO, LastWords.buffer, strlen(LastWords.buffer))
            // The fault that raised the signal raises it again, and then the signal ends the process.
            Glibc.signal(signal, SIG_DFL)
        }
        sigaction(signal, &action, nil)
    }
}
