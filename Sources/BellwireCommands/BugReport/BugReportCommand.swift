import Delivery
import Glibc
import Support

/// `bellwire bugreport`: a file that a user can send with a bug report (docs/operations.md, A bug report).
package enum BugReportCommand {
    private enum Bounds {
        /// The last lines of the log, and their bytes. Only the end of a file is read.
        static let logLines = 1_000
        static let logBytes = 512 * 1024
        static let pages = 20
    }

    private static let command = Command(
        name: "bugreport", arguments: "",
        summary: """
            Writes what a bug report needs into one file: versions, the settings of serve and gateway, the report of
            doctor, /readyz and /metrics of processes, and the end of a log. Passwords and tokens are left out; ids of
            users and names of machines are not: read the file before you send it.
            """,
        options: [
            Option("out", "FILE", default: "bellwire-bugreport.txt", "a new file; - for standard output"),
            Option("log", "FILE", default: "", "a log, of which the end is taken; - for standard input"),
            Option("http", "URL,URL", default: "", "the HTTP addresses of coordinators and gateways"),
            Option("http-ca", "FILE", default: "", "certificate authorities to trust with https://"),
        ] + DoctorCommand.options.filter { $0.name != "http" },
        positionals: 0...0, configObjects: DoctorCommand.configObjects)

    package static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let out = try arguments.required("out", "a file") { $0.isEmpty ? nil : $0 }
        if out != "-", access(out, F_OK) == 0 { throw UsageError("bellwire bugreport: \(out) exists") }
        let sections = [
            ("Versions", versions), ("Settings", settings(arguments)), ("Doctor", doctor(arguments)),
            ("Processes", try processes(arguments)), ("Log", try log(arguments)),
        ]
        let text = sections.map { "== \($0) ==\n\n\($1.joined(separator: "\n"))\n" }.joined(separator: "\n")
        if out == "-" {
            writeOutput(text)
        } else {
            try writeFile(Array(text.utf8), to: out, mode: 0o600, isNew: true)
            print("\(out): read it before you send it")
        }
    }

    // MARK: Sections

    private static var versions: [String] {
        var name = utsname()
        uname(&name)
        func text<Field>(_ field: Field) -> String {
            withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
        let system = contents(of: "/etc/os-release", last: 4_096).split(separator: "\n").first {
            $0.hasPrefix("PRETTY_NAME=")
        }
        return [
            "bellwire \(bellwireVersion) (\(bellwireCommit))", "written \(timestamp(SystemClock.wall.milliseconds))",
            "system \(system.map { $0.dropFirst("PRETTY_NAME=".count).filter { $0 != "\"" } } ?? "unknown")",
            "kernel \(text(name.sysname)) \(text(name.release)) \(text(name.machine))",
            "processors \(sysconf(Int32(_SC_NPROCESSORS_ONLN)))",
            "memory \(sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE)) / 1_048_576) MiB",
        ]
    }

    /// The settings that differ from their defaults, of each command, as it would start here.
    private static func settings(_ arguments: Arguments) -> [String] {
        let config = arguments.text(ConfigFile.option.name).flatMap { $0.isEmpty ? nil : ["--config", $0] } ?? []
        var lines: [String] = []
        for command in [ServeCommand.command, GatewayCommand.command] {
            lines.append("\(command.name):")
            do {
                for (option, text, place) in try Arguments(command, config).givenValues {
                    lines.append("  \(option.name) = \(Withheld.value(text, of: option))   (\(place))")
                }
            } catch {
                lines.append("  \(Withheld.text("\(error)"))")
            }
        }
        lines.append("All other settings have their defaults.")
        let known = Set((ServeCommand.command.options + GatewayCommand.command.options).map(\.environmentName))
        let others = environmentNames.filter { $0.hasPrefix("BELLWIRE_") && !known.contains($0) }
        if !others.isEmpty { lines.append("Other variables: \(others.joined(separator: ", "))") }
        return lines
    }

    private static var environmentNames: [String] {
        var names: [String] = []
        var entry = environ
        while let text = entry.pointee {
            if let name = String(cString: text).split(separator: "=").first { names.append(String(name)) }
            entry += 1
        }
        return names.sorted()
    }

    private static func doctor(_ arguments: Arguments) -> [String] {
        do {
            return DoctorCommand.lines(of: try DoctorCommand.checks(arguments, reachesServers: false)).map(
                Withheld.text)
        } catch {
            return [Withheld.text("not examined: \(error)")]
        }
    }

    private static func processes(_ arguments: Arguments) throws -> [String] {
        guard let text = arguments.text("http"), !text.isEmpty else {
            return ["None was named: --http http://127.0.0.1:9000,…"]
        }
        var reader = try ProcessReader(arguments)
        defer { reader.stop() }
        let samples = reader.read()
        return samples.prefix(Bounds.pages).flatMap { sample in
            let readiness = sample.readinessText.isEmpty ? "no answer" : sample.readinessText
            return [
                "-- \(Withheld.text(sample.url))/readyz", Withheld.text(readiness),
                "-- \(Withheld.text(sample.url))/metrics",
                Withheld.text(sample.unreachable.map { "\($0)\n" } ?? sample.metricsText),
            ]
        } + (samples.count > Bounds.pages ? ["and \(samples.count - Bounds.pages) more"] : [])
    }

    private static func log(_ arguments: Arguments) throws -> [String] {
        guard let path = arguments.text("log"), !path.isEmpty else {
            return ["None was given: docker compose logs --no-color --tail 1000 | bellwire bugreport --log -"]
        }
        if path != "-" { _ = try arguments.file("log") }
        let lines = contents(of: path == "-" ? "/dev/stdin" : path, last: Bounds.logBytes).split(separator: "\n")
        return lines.suffix(Bounds.logLines).map { Withheld.text(String($0)) }
    }

    /// Returns the last lines of a file or of a pipe, which is read to its end. A line that would be cut is left out,
    /// since half a token may not be recognized.
    private static func contents(of path: String, last most: Int) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        let size = lseek(descriptor, 0, SEEK_END)
        var isCut = size > off_t(most)
        if size > 0 { lseek(descriptor, max(0, size - off_t(most)), SEEK_SET) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &piece, piece.count)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += piece[..<count]
            if bytes.count > 2 * most {
                bytes.removeFirst(bytes.count - most)
                isCut = true
            }
        }
        isCut = isCut || bytes.count > most
        var rest = bytes.suffix(most)
        if isCut { rest = rest.drop { $0 != UInt8(ascii: "\n") } }
        return String(decoding: rest, as: UTF8.self)
    }
}
