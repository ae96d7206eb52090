import Glibc
import Support
import Synchronization

/// Reads the keys of a terminal and the signals that end the process, in one thread.
enum PhoneConsole {
    enum Input: Sendable {
        case key(UInt8)
        /// SIGINT, SIGTERM, SIGHUP or SIGQUIT.
        case signal(Int32)
        /// Standard output has no reader any more.
        case outputClosed
    }

    /// Whether standard input is a terminal in the foreground, so that keys can be used.
    static let hasKeys = isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp()

    /// Reports keys and signals to `report`, from a thread that lives as long as the process.
    static func open(_ report: @escaping @Sendable (Input) -> Void) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        signalDescriptor.store(ends[1], ordering: .sequentiallyConsistent)
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            // An ignored signal stays ignored, as with nohup and for commands that a shell starts in the background.
            guard !isIgnored(number) else { continue }
            var action = sigaction()
            action.__sigaction_handler.sa_handler = noteSignal
            action.sa_flags = Int32(SA_RESTART)
            sigaction(number, &action, nil)
        }
        let hasKeys = hasKeys && TerminalMode.readSingleKeys()
        let signals = ends[0]
        startDetachedThread { read(signals: signals, hasKeys: hasKeys, report) }
    }

    private static func read(signals: Int32, hasKeys: Bool, _ report: (Input) -> Void) {
        // `poll` ignores a negative descriptor.
        var descriptors = [
            pollfd(fd: signals, events: Int16(POLLIN), revents: 0),
            pollfd(fd: STDOUT_FILENO, events: 0, revents: 0),
            pollfd(fd: hasKeys ? STDIN_FILENO : -1, events: Int16(POLLIN), revents: 0),
        ]
        var byte: UInt8 = 0
        while true {
            guard poll(&descriptors, nfds_t(descriptors.count), -1) > 0 else { continue }
            if descriptors[0].revents != 0, Glibc.read(signals, &byte, 1) == 1 { report(.signal(Int32(byte))) }
            if descriptors[1].revents != 0 {
                if descriptors[1].revents & Int16(POLLERR | POLLHUP) != 0 { report(.outputClosed) }
                descriptors[1].fd = -1
            }
            if descriptors[2].revents != 0 {
                if Glibc.read(STDIN_FILENO, &byte, 1) == 1 {
                    report(.key(byte))
                } else {
                    descriptors[2].fd = -1
                }
            }
        }
    }
}

/// The terminal mode in which each key is read at once and not shown. The process restores the former mode at its exit.
enum TerminalMode {
    private static let saved = Mutex<termios?>(nil)

    /// Sets the mode. Returns false if the terminal refuses.
    static func readSingleKeys() -> Bool {
        var mode = termios()
        guard tcgetattr(STDIN_FILENO, &mode) == 0 else { return false }
        let original = mode
        saved.withLock { $0 = original }
        atexit(restoreTerminal)
        mode.c_lflag &= ~tcflag_t(ICANON | ECHO)
        return tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0
    }

    static func restore() {
        guard var mode = saved.withLock({ $0 }) else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &mode)
    }
}

/// The descriptor to which the signal handler writes.
private let signalDescriptor = Atomic<Int32>(-1)

// The C callbacks are file-private functions, since a closure would inherit the actor isolation of the surrounding
// code.

private func restoreTerminal() { TerminalMode.restore() }

/// Writes a single byte, as a signal handler may.
private func noteSignal(_ number: Int32) {
    var byte = UInt8(truncatingIfNeeded: number)
    _ = write(signalDescriptor.load(ordering: .sequentiallyConsistent), &byte, 1)
}
