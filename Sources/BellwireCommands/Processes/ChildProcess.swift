import CProcess
import Glibc

/// A child process that the kernel ends when this process ends, for any reason.
package struct ChildProcess {
    package let pid: pid_t
    private let name: String
    private let logPath: String

    private enum ChildProcessBounds {
        /// The milliseconds between two checks, and the number of checks: 5 s.
        static let pause: Int32 = 20
        static let looks = 250
    }

    /// Starts `executable` with its output in `logPath`. Must be called by a thread that lives as long as the child
    /// process.
    package init(
        _ name: String, _ executable: String, _ arguments: [String], logPath: String
    ) throws(DeploymentError) {
        self.name = name
        self.logPath = logPath
        let log = open(logPath, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        guard log >= 0 else { throw DeploymentError("\(logPath): \(String(cString: strerror(errno)))") }
        defer { close(log) }
        let words: [UnsafeMutablePointer<CChar>?] = ([executable] + arguments).map { strdup($0) } + [nil]
        defer { words.forEach { free($0) } }
        pid = bellwire_spawn_bound_child(executable, words, log)
        guard pid > 0 else {
            throw DeploymentError("\(name) cannot be started: \(String(cString: strerror(errno)))")
        }
    }

    /// The reason why the process ended; nil while the process runs.
    package var failure: String? {
        var status: Int32 = 0
        guard waitpid(pid, &status, WNOHANG) == pid else { return nil }
        return "\(name) ended by itself; see \(logPath)"
    }

    /// Waits for at most 5 s until `condition` holds.
    package func waitUntil(_ purpose: String, _ condition: () -> Bool) throws(DeploymentError) {
        for _ in 0..<ChildProcessBounds.looks {
            if condition() { return }
            if let failure { throw DeploymentError(failure) }
            _ = poll(nil, 0, ChildProcessBounds.pause)
        }
        throw DeploymentError("not after 5 s: \(name) \(purpose); see \(logPath)")
    }

    /// Ends the process and waits until the process is gone.
    package func stop() {
        kill(pid, SIGTERM)
        var status: Int32 = 0
        for _ in 0..<ChildProcessBounds.looks {
            if waitpid(pid, &status, WNOHANG) != 0 { return }
            _ = poll(nil, 0, ChildProcessBounds.pause)
        }
        kill(pid, SIGKILL)
        waitpid(pid, &status, 0)
    }

    /// Returns the path of an executable: in `PATH`, or in the directories where Debian puts servers.
    package static func find(_ name: String) throws(DeploymentError) -> String {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/local/sbin"]
        let candidates = directories.map { $0 + "/" + name }
        guard let found = candidates.first(where: { access($0, X_OK) == 0 }) else {
            throw DeploymentError("\(name) is not installed: ./scripts/deps installs it")
        }
        return found
    }
}
