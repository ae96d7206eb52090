import Glibc
import SignalingProtocol

/// Returns the bytes of a file without a byte order mark (some editors put such a mark before UTF-8). The error names
/// the file and the reason.
package func readFile(_ path: String, maxBytes: Int) throws(SettingsError) -> [UInt8] {
    guard let file = fopen(path, "re") else { throw SettingsError("\(path): \(String(cString: strerror(errno)))") }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: maxBytes + 1)
    let count = fread(&bytes, 1, bytes.count, file)
    guard ferror(file) == 0 else { throw SettingsError("\(path): \(String(cString: strerror(errno)))") }
    guard count <= maxBytes else { throw SettingsError("\(path): over \(maxBytes) bytes") }
    bytes.removeLast(bytes.count - count)
    return bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
}

/// The bound of a settings file, and of a provider's key file, in bytes.
package let maxSettingsBytes = 1 << 20

/// Reads a settings file, whose top object has the fields `known`. Throws the first mistake, with its place, in one
/// sentence.
func readSettings<Settings>(
    _ path: String, known: [String], _ make: (SettingsObject) throws(SettingsError) -> Settings
) throws(SettingsError) -> Settings {
    let bytes = try readFile(path, maxBytes: maxSettingsBytes)
    do throws(SettingsError) {
        return try make(try SettingsObject(try parsedSettings(bytes), at: "", known: known))
    } catch {
        throw error.within(path)
    }
}

/// Resolves a `path` in the settings file at `settings`: paths are relative to the settings file.
package func resolve(_ path: String, besides settings: String) -> String {
    guard !path.hasPrefix("/"), let slash = settings.utf8.lastIndex(of: UInt8(ascii: "/")) else { return path }
    return settings[...slash] + path
}

/// Parses a settings file. The error names line and column of the mistake.
package func parsedSettings(_ bytes: [UInt8]) throws(SettingsError) -> JSONValue {
    do throws(JSONError) {
        return try JSONParser.parse(bytes)
    } catch {
        let before = bytes.prefix(error.offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        // Counts characters: the continuation bytes of UTF-8 are left out.
        let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count { $0 & 0xC0 != 0x80 } + 1
        throw SettingsError("not JSON: \(error.reason) at line \(line), column \(column)")
    }
}
