import Delivery
import Glibc

/// A flag of a subcommand. Its environment variable is `BELLWIRE_` and the name in capitals, with `_` for `-`.
package struct Option {
    let name: String
    /// The placeholder for the value in the help, such as `HOST:PORT`; nil for a flag without a value.
    let placeholder: String?
    /// The value without a flag and without an environment variable, as shown in the help.
    let standard: String?
    let help: String
    /// Whether the value may hold a password; such a value is never shown.
    var isSecret = false

    /// A flag with a value.
    package init(
        _ name: String, _ placeholder: String, default standard: String? = nil, isSecret: Bool = false, _ help: String
    ) {
        self.isSecret = isSecret
        self.name = name
        self.placeholder = placeholder
        self.standard = standard
        self.help = help
    }

    /// A flag without a value, which is given or not.
    package init(switch name: String, _ help: String) {
        self.name = name
        placeholder = nil
        standard = nil
        self.help = help
    }

    var environmentName: String {
        "BELLWIRE_" + String(name.uppercased().map { $0 == "-" ? "_" : $0 })
    }
}

/// An unusable command line: a message of one line, and exit status 64 (`EX_USAGE`).
package struct UsageError: Error, CustomStringConvertible {
    static let exitStatus: Int32 = 64
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A subcommand's name, flags and help.
package struct Command {
    /// The program of the subcommand: `bellwire` or `bellwire-lab`.
    let program: String
    let name: String
    let arguments: String
    let summary: String
    let options: [Option]
    /// The number of words without a flag.
    let positionals: ClosedRange<Int>
    /// The objects of a settings file that count for this command; an earlier object wins.
    let configObjects: [String]

    /// - Parameter configObjects: nil for the object with the name of the command.
    package init(
        program: String = "bellwire", name: String, arguments: String, summary: String, options: [Option],
        positionals: ClosedRange<Int>, configObjects: [String]? = nil
    ) {
        self.configObjects = configObjects ?? [name]
        self.program = program
        self.name = name
        self.arguments = arguments
        self.summary = summary
        self.options = options
        self.positionals = positionals
    }

    /// Returns the same command for another program, with more options.
    package func variant(in program: String, summary: String, more: [Option]) -> Command {
        Command(
            program: program, name: name, arguments: arguments, summary: summary, options: more + options,
            positionals: positionals)
    }

    /// Returns the same command with other objects of a settings file.
    func reading(_ objects: [String]) -> Command {
        Command(
            program: program, name: name, arguments: arguments, summary: summary, options: options,
            positionals: positionals, configObjects: objects)
    }

    /// Whether the command takes a settings file.
    var takesConfig: Bool { options.contains { $0.name == ConfigFile.option.name } }

    /// The program and the command, as typed, and as the beginning of error messages.
    var title: String { "\(program) \(name)" }

    var help: String {
        var text =
            "usage: \(title) [options]\(arguments.isEmpty ? "" : " " + arguments)\n\n\(summary)\n\noptions:\n"
        for option in options {
            let left = "  --\(option.name)" + (option.placeholder.map { " " + $0 } ?? "")
            let value = option.standard.map { $0.isEmpty ? " (default: none)" : " (default: \($0))" } ?? ""
            text += left.padded(to: 38) + " " + option.help + value + "\n"
        }
        text += "  --help".padded(to: 38) + " show this\n"
        text += "\nEach option can also be given as an environment variable, as BELLWIRE_BROKER for --broker"
        return text + (takesConfig ? ", or in the settings file of --config.\n" : ".\n")
    }
}

/// The values of a command line: each value comes from the flag, the environment variable, the settings file of
/// `--config`, or the default. An empty environment variable counts as not given.
package struct Arguments {
    private(set) var command: Command
    package let positionals: [String]
    private var given: [String: String] = [:]
    private var config: ConfigFile?
    private let hasEnvironment: Bool

    /// Reads the words. Prints the help and exits if the words ask for help.
    package init(_ command: Command, _ words: [String]) throws(UsageError) {
        self.command = command
        hasEnvironment = true
        var positionals: [String] = []
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--help" || word == "-h" {
                print(command.help, terminator: "")
                exit(0)
            }
            if word == "--" {
                positionals += rest
                break
            }
            guard word.hasPrefix("-"), word.count > 1 else {
                positionals.append(word)
                continue
            }
            guard word.hasPrefix("--") else { throw UsageError("\(command.title): unknown option \(word)") }
            let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let option = command.options.first(where: { $0.name == parts[0] }) else {
                throw UsageError("\(command.title): unknown option --\(parts[0])")
            }
            if option.placeholder == nil {
                guard parts.count == 1 else {
                    throw UsageError("\(command.title): --\(option.name) takes no value")
                }
                given[option.name] = "true"
            } else if parts.count == 2 {
                given[option.name] = String(parts[1])
            } else if let value = rest.popFirst() {
                given[option.name] = value
            } else {
                throw UsageError("\(command.title): --\(option.name) needs a value")
            }
        }
        guard command.positionals.contains(positionals.count) else {
            throw UsageError(
                positionals.count < command.positionals.lowerBound
                    ? "\(command.title): missing argument: \(command.arguments)"
                    : "\(command.title): unexpected argument \(positionals[command.positionals.upperBound])")
        }
        self.positionals = positionals
        guard command.takesConfig, let path = text(ConfigFile.option.name), !path.isEmpty else { return }
        do throws(SettingsError) {
            config = try ConfigFile(path)
        } catch {
            throw UsageError("\(command.title): --config \(error.description)")
        }
    }

    /// Whether the settings file has the object of a command.
    func hasConfigObject(_ name: String) -> Bool { config?.names(name) ?? false }

    /// Returns the same arguments with other objects of the settings file, an earlier object winning.
    func reading(_ objects: [String]) -> Arguments {
        var other = self
        other.command = command.reading(objects)
        return other
    }

    /// Creates arguments from a settings file only, without command line and environment.
    init(_ command: Command, file: ConfigFile) {
        self.command = command
        positionals = []
        config = file
        hasEnvironment = false
    }

    /// Runs `body`. An error that names options from the settings file gets their places in the file.
    func placing<Result>(_ body: (Arguments) throws -> Result) throws -> Result {
        do {
            return try body(self)
        } catch let error as UsageError {
            let words = error.description.split { $0 == " " || $0 == ":" || $0 == "=" }
            let names = Set(words.filter { $0.hasPrefix("--") }.map { String($0.dropFirst(2)) })
            let places = names.sorted().compactMap { fileValue($0)?.place }
            guard !places.isEmpty else { throw error }
            throw UsageError("\(error.description) (\(places.joined(separator: ", ")))")
        }
    }

    /// The value in the settings file, unless the command line or the environment has a value.
    private func fileValue(_ name: String) -> ConfigFile.Value? {
        guard given[name] == nil, let option = command.options.first(where: { $0.name == name }),
            environment(option) == nil
        else { return nil }
        return config?.value(name, of: command)
    }

    private func environment(_ option: Option) -> String? {
        guard hasEnvironment, let value = getenv(option.environmentName) else { return nil }
        let text = String(cString: value)
        return text.isEmpty ? nil : text
    }

    /// Returns the options that were given, each with its value and the place where the value stands.
    var givenValues: [(option: Option, text: String, place: String)] {
        command.options.compactMap { option in
            if let text = given[option.name] { return (option, text, "command line") }
            if let text = environment(option) { return (option, text, "environment") }
            guard let value = config?.value(option.name, of: command) else { return nil }
            return (option, value.text, value.place)
        }
    }

    /// Returns the text of `name`, from flag, environment, settings file or default.
    package func text(_ name: String) -> String? {
        guard let option = command.options.first(where: { $0.name == name }) else {
            preconditionFailure("\(name) is not an option of \(command.name)")
        }
        return given[name] ?? environment(option) ?? config?.value(name, of: command)?.text ?? option.standard
    }

    /// Returns the same arguments, in which only the object of the settings file counts that has `name`.
    func narrowed(to name: String) -> Arguments {
        config?.object(with: name, of: command).map { reading([$0]) } ?? self
    }

    /// Whether a flag without a value was given.
    package func isSet(_ name: String) -> Bool {
        guard let text = text(name) else { return false }
        return text != "false" && text != "0" && !text.isEmpty
    }

    /// Returns the value of `name`, read by `parse`; nil without a value. Throws if `parse` returns nil.
    func value<Value>(_ name: String, _ expected: String, _ parse: (String) -> Value?) throws(UsageError) -> Value? {
        guard let text = text(name) else { return nil }
        guard let value = parse(text) else {
            let isSecret = command.options.contains { $0.name == name && $0.isSecret }
            let shown = isSecret ? "" : " \(text)"
            throw UsageError("\(command.title): --\(name)\(shown): expected \(expected)")
        }
        return value
    }

    /// Returns the value of an option, read by `parse`. Throws without a value.
    package func required<Value>(_ name: String, _ expected: String, _ parse: (String) -> Value?) throws(UsageError)
        -> Value
    {
        guard let value = try value(name, expected, parse) else {
            throw UsageError("\(command.title): --\(name) is required")
        }
        return value
    }

    /// Returns the path of a readable file; nil when the option is empty. Throws if the file cannot be read.
    func file(_ name: String) throws(UsageError) -> String? {
        guard let path = text(name), !path.isEmpty else { return nil }
        guard access(path, R_OK) == 0 else {
            throw UsageError(
                "\(command.title): --\(name) \(path): cannot be read: \(String(cString: strerror(errno)))")
        }
        return path
    }

    /// Returns milliseconds, read from a text such as `500ms`, `5s`, `1m`, `2h` or `7d`.
    package func milliseconds(_ name: String, in range: ClosedRange<Int64>) throws(UsageError) -> Int64 {
        let expected =
            "a duration as 500ms, 5s or 1m, from \(duration(range.lowerBound)) to \(duration(range.upperBound))"
        return try required(name, expected) { text in parseDuration(text).flatMap { range.contains($0) ? $0 : nil } }
    }

    package func integer(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        try required(name, "a whole number from \(range.lowerBound) to \(range.upperBound)") { text in
            Int(text).flatMap { range.contains($0) ? $0 : nil }
        }
    }
}

private let durationUnits: [(suffix: String, milliseconds: Int64)] = [
    ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
]

/// Returns the milliseconds of a duration such as `500ms`, `5s`, `1m`, `2h` or `7d`; nil for any other text.
func parseDuration(_ text: String) -> Int64? {
    for unit in durationUnits where text.hasSuffix(unit.suffix) {
        guard let number = Int64(text.dropLast(unit.suffix.count)), number >= 0 else { continue }
        let (value, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
        return overflow ? nil : value
    }
    return nil
}

/// Returns a duration as text, in the largest unit that needs no fraction.
func duration(_ milliseconds: Int64) -> String {
    let unit = durationUnits.last { milliseconds % $0.milliseconds == 0 } ?? durationUnits[0]
    return milliseconds == 0 ? "0s" : "\(milliseconds / unit.milliseconds)\(unit.suffix)"
}

extension String {
    package func padded(to width: Int) -> String {
        count >= width ? self : self + String(repeating: " ", count: width - count)
    }
}
