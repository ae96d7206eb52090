import Delivery
import Glibc
import SignalingProtocol

/// The settings file of `--config` (docs/deployment.md, One settings file): the options of `serve`, `gateway` and `dev`
/// by their long names. The objects `serve`, `gateway` and `dev` count for that command alone, and win there.
struct ConfigFile {
    /// The bound of the files that include each other.
    static let mostFiles = 16

    static let option = Option("config", "FILE", default: "", "a settings file; bellwire config --example prints one")

    static var commands: [Command] { [ServeCommand.command, GatewayCommand.command, DevCommand.command] }

    struct Value {
        let text: String
        /// The file, and the place in the file, as `bellwire.json: serve.store`.
        let place: String
    }

    /// The values by command; under the empty name the values for all commands.
    private var values: [String: [String: Value]] = [:]

    /// Reads the file and the files that the file includes. Throws the first mistake, with its place.
    init(_ path: String) throws(SettingsError) { try read(path, from: []) }

    /// Returns the value that counts for a command: the value in the first of the command's objects that has the
    /// setting, or the value for all commands.
    func value(_ name: String, of command: Command) -> Value? {
        command.configObjects.lazy.compactMap { values[$0]?[name] }.first ?? values[""]?[name]
    }

    /// Returns the first of a command's objects that has the setting; nil when the setting stands outside.
    func object(with name: String, of command: Command) -> String? {
        command.configObjects.first { values[$0]?[name] != nil }
    }

    /// Whether the file has the object of a command.
    func names(_ command: String) -> Bool { values[command] != nil }

    /// - Parameter chain: the files that include this file.
    private mutating func read(_ path: String, from chain: [String]) throws(SettingsError) {
        let file = canonical(path)
        guard !chain.contains(file) else {
            throw SettingsError("\(path): the files include each other in a circle")
        }
        guard chain.count < Self.mostFiles else {
            throw SettingsError("\(path): more than \(Self.mostFiles) files include each other")
        }
        let object = try Self.object(in: path)
        // The included file first, since the including file wins.
        if let include = object["include"] {
            guard let text = include.string, !text.isEmpty else {
                throw SettingsError("\(path): include: expected a file")
            }
            try read(resolve(text, besides: path), from: chain + [file])
        }
        var seen: Set<String> = []
        for field in object.fields where field.key != "include" {
            guard seen.insert(field.key).inserted else { throw SettingsError("\(path): \(field.key): stands twice") }
            guard let command = Self.commands.first(where: { $0.name == field.key }) else {
                try keep(field, for: "", known: Self.commands, in: path, at: "")
                continue
            }
            guard let own = field.value.object else {
                throw SettingsError("\(path): \(field.key): expected a JSON object")
            }
            values[command.name, default: [:]].merge([:]) { $1 }
            for inner in own.fields {
                try keep(inner, for: command.name, known: [command], in: path, at: command.name + ".")
            }
        }
    }

    private static func object(in path: String) throws(SettingsError) -> JSONObject {
        let bytes = try readFile(path, maxBytes: maxSettingsBytes)
        do throws(SettingsError) {
            guard let object = try parsedSettings(withoutComments(bytes)).object else {
                throw SettingsError("expected a JSON object")
            }
            return object
        } catch {
            throw error.within(path)
        }
    }

    private mutating func keep(
        _ field: JSONObject.Field, for command: String, known: [Command], in path: String, at prefix: String
    ) throws(SettingsError) {
        let place = "\(path): \(prefix)\(shown(field.key))"
        let options = known.lazy.flatMap(\.options).filter { $0.name != Self.option.name }
        guard let option = options.first(where: { $0.name == field.key }) else {
            throw SettingsError("\(place): unknown setting\(Self.hint(field.key, Array(options)))")
        }
        guard let text = try Self.text(field.value, at: place) else { return }
        if option.placeholder == nil, text != "true", text != "false" {
            throw SettingsError("\(place): expected true or false")
        }
        values[command, default: [:]][field.key] = Value(text: option.resolved(text, besides: path), place: place)
    }

    /// Returns nil for `null`, which counts as left out.
    private static func text(_ value: JSONValue, at place: String) throws(SettingsError) -> String? {
        switch value {
        case .null: return nil
        case .string(let text): return text
        case .bool(let isTrue): return isTrue ? "true" : "false"
        case .int(let number): return String(number)
        case .double(let number) where number.isFinite: return String(number)
        case .double, .array, .object: throw SettingsError("\(place): expected a text, a number, true or false")
        }
    }

    private static func hint(_ key: String, _ options: [Option]) -> String {
        let plain = key.lowercased().filter { $0 != "-" && $0 != "_" }
        guard let meant = options.first(where: { $0.name.filter { $0 != "-" } == plain }) else { return "" }
        return "; did you mean \(meant.name)?"
    }
}

extension Option {
    /// Returns the value with its path counted from the folder of the settings file.
    fileprivate func resolved(_ text: String, besides file: String) -> String {
        guard !text.isEmpty else { return text }
        if placeholder == "FILE" || placeholder == "DIRECTORY" { return resolve(text, besides: file) }
        let sqlite = "sqlite:"
        guard name == "store", text.hasPrefix(sqlite) else { return text }
        return sqlite + resolve(String(text.dropFirst(sqlite.count)), besides: file)
    }
}

/// Returns the path without links and without `..`; the path itself when the file is not there.
private func canonical(_ path: String) -> String {
    guard let found = realpath(path, nil) else { return path }
    defer { free(found) }
    return String(cString: found)
}

/// Returns JSON with spaces in place of its comments, so that lines and columns stay the same. A comment begins with
/// `//` outside a text and ends with its line.
func withoutComments(_ bytes: [UInt8]) -> [UInt8] {
    let (quote, backslash, slash) = (UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"))
    var plain = bytes
    var isText = false
    var place = 0
    while place < plain.count {
        let byte = plain[place]
        if isText, byte == backslash {
            place += 2
            continue
        }
        if byte == quote { isText.toggle() }
        if !isText, byte == slash, place + 1 < plain.count, plain[place + 1] == slash {
            while place < plain.count, plain[place] != UInt8(ascii: "\n") {
                plain[place] = UInt8(ascii: " ")
                place += 1
            }
            continue
        }
        place += 1
    }
    return plain
}
