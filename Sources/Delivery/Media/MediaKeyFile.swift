import Synchronization
import Tokens

/// The key of a media server, which signs the tokens of its rooms.
enum MediaKey: Sendable {
    /// LiveKit's pair: the name of the key and the secret.
    case named(String, CryptographicKey)
    case plain(CryptographicKey)

    var key: CryptographicKey {
        switch self {
        case .named(_, let key), .plain(let key): key
        }
    }

    /// Reads LiveKit's line `KEY: SECRET`.
    static func liveKit(_ file: [UInt8]) throws(SettingsError) -> MediaKey {
        let line = withoutLineBreak(file)
        guard !line.contains(UInt8(ascii: "\n")), let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            throw SettingsError("expected one line, KEY: SECRET")
        }
        let name = trimmed(line[..<colon])
        let secret = trimmed(line[(colon + 1)...])
        guard !name.isEmpty, !secret.isEmpty, !(name + secret).contains(where: { $0 <= 0x20 || $0 == 0x7F }),
            let text = String(validating: name, as: UTF8.self)
        else { throw SettingsError("expected one line, KEY: SECRET") }
        return .named(text, CryptographicKey(secret: Array(secret)))
    }

    /// Reads a secret for HS256, or a private key in PEM for another algorithm.
    static func key(_ file: [UInt8], _ algorithm: SignatureAlgorithm) throws(SettingsError) -> MediaKey {
        guard algorithm == .hs256 else {
            do throws(TokenError) {
                return .plain(try CryptographicKey(algorithm, pem: file))
            } catch {
                throw SettingsError(error.description)
            }
        }
        guard !isPEM(file) else { throw SettingsError("HS256 takes a secret, not a key in PEM") }
        let secret = withoutLineBreak(file)
        guard secret.count >= leastSecretBytes else {
            throw SettingsError("a secret for HS256 has at least \(leastSecretBytes) bytes")
        }
        return .plain(CryptographicKey(secret: Array(secret)))
    }

    /// The length that RFC 7518, section 3.2, requires.
    static let leastSecretBytes = 32

    static func isPEM(_ file: [UInt8]) -> Bool { String(decoding: file, as: UTF8.self).contains("-----BEGIN ") }

    private static func withoutLineBreak(_ file: [UInt8]) -> ArraySlice<UInt8> {
        var rest = file[...]
        if rest.last == UInt8(ascii: "\n") { rest = rest.dropLast() }
        if rest.last == UInt8(ascii: "\r") { rest = rest.dropLast() }
        return rest
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let start = bytes.drop(while: isSpace)
        return start.prefix((start.lastIndex { !isSpace($0) } ?? start.startIndex - 1) - start.startIndex + 1)
    }
}

/// The news of a key file for operators, in the log.
package enum MediaKeyNews: Sendable, Equatable {
    case readAgain
    /// The file has changed and cannot be used: the former key stays in use.
    case unusable(String)
}

/// A key file that is read again when the file changes. The key is used on the coordinator's thread and on the thread
/// of a worker, and `look` is called on a third thread.
package final class MediaKeyFile: Sendable {
    private struct KeyState {
        var key: MediaKey
        /// The digest of the content that `key` was read from, or that was found to be unusable.
        var known: [UInt8]
        /// The digest of a new content that was seen once. A second reading must see the same content: the first
        /// reading may have met a file that was being written.
        var fresh: [UInt8]?
        /// The reason why the file could not be opened.
        var failure: String?
    }

    private static let mostBytes = 64 << 10

    package let path: String
    private let read: @Sendable ([UInt8]) throws(SettingsError) -> MediaKey
    private let state: Mutex<KeyState>

    /// Creates a key that is in no file and never changes, for simulations.
    init(_ key: MediaKey) {
        path = ""
        read = { _ throws(SettingsError) in key }
        state = Mutex(KeyState(key: key, known: []))
    }

    /// - Parameter read: reads the key from the content. Its error repeats no part of the content.
    init(
        _ path: String, _ read: @escaping @Sendable ([UInt8]) throws(SettingsError) -> MediaKey
    ) throws(SettingsError) {
        self.path = path
        self.read = read
        let content = try Self.content(path)
        state = Mutex(KeyState(key: try read(content), known: Digest.sha256(content)))
    }

    var key: MediaKey { state.withLock(\.key) }

    /// Reads the file, and uses its key if the content is new. Returns the news; nil without news.
    package func look() -> MediaKeyNews? {
        guard !path.isEmpty else { return nil }
        let content: [UInt8]
        do throws(SettingsError) {
            content = try Self.content(path)
        } catch {
            return state.withLock { state in
                guard state.failure != error.description else { return nil }
                state.failure = error.description
                return .unusable(error.description)
            }
        }
        let digest = Digest.sha256(content)
        return state.withLock { state in
            state.failure = nil
            guard digest != state.known else {
                state.fresh = nil
                return nil
            }
            guard digest == state.fresh else {
                state.fresh = digest
                return nil
            }
            (state.known, state.fresh) = (digest, nil)
            do throws(SettingsError) {
                state.key = try read(content)
                return .readAgain
            } catch {
                return .unusable(error.description)
            }
        }
    }

    /// Returns the content of the file. The error does not repeat the path: an operator may have written the key itself
    /// in the place of the path.
    private static func content(_ path: String) throws(SettingsError) -> [UInt8] {
        do throws(SettingsError) {
            return try readFile(path, maxBytes: mostBytes)
        } catch {
            throw SettingsError(String(decoding: error.description.utf8.dropFirst(path.utf8.count + 2), as: UTF8.self))
        }
    }
}
