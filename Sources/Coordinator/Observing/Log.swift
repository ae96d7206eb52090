import Glibc
import SignalingProtocol
import Support
import Synchronization

/// Writes log lines to standard error. Messages are static and carry their details as metadata; payloads and tokens
/// never appear.
package struct Log: Sendable {
    package enum Level: String, Sendable, CaseIterable, Comparable {
        case debug, info, warning, error

        package static func < (lhs: Level, rhs: Level) -> Bool {
            lhs.number < rhs.number
        }

        fileprivate var number: Int { Self.allCases.firstIndex(of: self)! }
    }

    package enum Format: String, Sendable, CaseIterable {
        case text, json
    }

    /// Shared by all copies of the log, since an administrator may change the level while the process runs.
    private let threshold: Threshold
    package var format: Format
    /// The coordinator's id, part of every JSON line, so that the lines of several coordinators can be told apart.
    package var coordinator: String

    package init(level: Level = .info, format: Format = .text, coordinator: String) {
        threshold = Threshold(level)
        self.format = format
        self.coordinator = coordinator
    }

    package var level: Level { threshold.level }

    /// Obeys an administrator's order. Returns the new level; nil, and changes nothing, for an unknown level.
    package func follow(_ text: String) -> Level? {
        guard let level = Level(rawValue: text) else { return nil }
        threshold.level = level
        // The line stands in the log whatever the level is.
        write(max(level, .info), "an administrator has set the level of the log", ["level": level.rawValue])
        return level
    }

    private final class Threshold: Sendable {
        private let number: Atomic<Int>

        init(_ level: Level) { number = Atomic(level.number) }

        var level: Level {
            get { Level.allCases[number.load(ordering: .relaxed)] }
            set { number.store(newValue.number, ordering: .relaxed) }
        }
    }

    package func callAsFunction(
        _ level: Level, _ message: StaticString, _ metadata: KeyValuePairs<StaticString, String> = [:]
    ) {
        guard level >= self.level else { return }
        write(level, message, metadata)
    }

    private func write(
        _ level: Level, _ message: StaticString, _ metadata: KeyValuePairs<StaticString, String>
    ) {
        var line: [UInt8]
        switch format {
        case .text:
            var text = "\(timestamp()) \(level.rawValue.uppercased()) \(message)"
            for (key, value) in metadata { text += " \(key)=\(value)" }
            // A value may contain a line break, but a log entry must stay a single line.
            line = text.utf8.map { $0 < 0x20 ? UInt8(ascii: " ") : $0 }
        case .json:
            line = JSONWriter.object(capacity: 256) { writer in
                writer.field("time", timestamp())
                writer.field("level", level.rawValue)
                writer.field("message", "\(message)")
                writer.field("coordinator", coordinator)
                for (key, value) in metadata { writer.field(key, value) }
            }
        }
        line.append(UInt8(ascii: "\n"))
        _ = line.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }

    private func timestamp() -> String {
        let now = SystemClock.wall.milliseconds
        var seconds = time_t(now / 1_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let milliseconds = now % 1_000
        let fraction =
            milliseconds < 10 ? "00\(milliseconds)" : milliseconds < 100 ? "0\(milliseconds)" : "\(milliseconds)"
        return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))T\(two(parts.tm_hour)):"
            + "\(two(parts.tm_min)):\(two(parts.tm_sec)).\(fraction)Z"
    }
}
