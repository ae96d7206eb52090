import Glibc
import SignalingProtocol

/// The keys of a deployment: a JSON Web Key Set (RFC 7517, section 5). The set holds several keys while a new key
/// replaces another.
package struct KeySet: Sendable {
    package static let maxKeys = 64
    package static let maxFileBytes = 1 << 20

    /// The keys in the order of the file. The first private key makes tokens.
    package private(set) var keys: [TokenKey]
    /// The keys of the file that cannot be used, each with its name and the reason, for a warning. A single bad key
    /// must not stop the service, since other programs may write the file too (RFC 7517, section 5).
    package private(set) var unusable: [String] = []
    /// Whether the file has keys that are not in `keys`: unusable keys, and keys that are not for signatures.
    package private(set) var hasOthers = false

    package init(_ keys: [TokenKey]) { self.keys = keys }

    /// Reads a key set, or a single key. Keys that cannot be used are skipped; a set without a usable key is an error.
    package init(json bytes: [UInt8]) throws(TokenError) {
        guard let object = (try? JSONParser.parse(bytes))?.object else {
            throw TokenError(.keys, "not a JSON object")
        }
        let entries = object["keys"].map { $0.array } ?? [.object(object)]
        guard let entries, entries.count <= Self.maxKeys else {
            throw TokenError(.keys, "keys: expected a list of at most \(Self.maxKeys) keys")
        }
        keys = []
        for (place, entry) in entries.enumerated() {
            do throws(TokenError) {
                guard let object = entry.object else { throw TokenError(.keys, "not a JSON object") }
                guard let key = try TokenKey(object) else {
                    hasOthers = true
                    continue
                }
                // Keys of different kinds may have the same name (RFC 7517, section 4.5).
                guard key.id == nil || named(key.id ?? "").allSatisfy({ $0.algorithm != key.algorithm }) else {
                    throw TokenError(.keys, "a key of the same kind before it has the same kid")
                }
                keys.append(key)
            } catch {
                hasOthers = true
                unusable.append("\(Self.name(of: entry, at: place)): \(error)")
            }
        }
        guard !keys.isEmpty else {
            let reasons = unusable.isEmpty ? "" : " (\(unusable.joined(separator: "; ")))"
            throw TokenError(
                .keys,
                "no key for one of \(SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))" + reasons)
        }
    }

    /// Returns a key's name for a warning: its place in the file, and its kid if present, on one line and of bounded
    /// length.
    private static func name(of entry: JSONValue, at place: Int) -> String {
        guard let id = entry.object?["kid"]?.string, !id.isEmpty else { return "key \(place + 1)" }
        let printable = id.unicodeScalars.prefix(64).map { $0.isASCII && 32..<127 ~= $0.value ? String($0) : "?" }
        return "key \(place + 1), kid \(printable.joined())"
    }

    private func named(_ id: String) -> [TokenKey] { keys.filter { $0.id?.hasSameBytes(as: id) ?? false } }

    package init(file path: String) throws(TokenError) {
        guard let file = fopen(path, "r") else {
            throw TokenError(.keys, "\(path): \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: Self.maxFileBytes + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0, count <= Self.maxFileBytes else {
            throw TokenError(.keys, "\(path): cannot be read, or is over \(Self.maxFileBytes) bytes")
        }
        do throws(TokenError) {
            let text = bytes.prefix(count)
            // Some editors put a byte order mark before UTF-8.
            try self.init(json: Array(text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text))
        } catch {
            throw TokenError(.keys, "\(path): \(error)")
        }
    }

    /// The key that makes tokens.
    package var signingKey: TokenKey? { keys.first { $0.isPrivate } }

    /// Adds a key that makes tokens from now on. Tokens of the other keys stay valid.
    package mutating func add(_ key: TokenKey) { keys.insert(key, at: 0) }

    /// Adds keys that check tokens, behind the others, so that the signing key stays. Returns the keys that were added:
    /// a key that the set has already is passed over.
    /// - Throws: when another key of the set has the same name and kind.
    package mutating func append(_ others: [TokenKey]) throws(TokenError) -> [TokenKey] {
        var added: [TokenKey] = []
        for key in others where !contains(key) {
            guard key.id == nil || named(key.id ?? "").allSatisfy({ $0.algorithm != key.algorithm }) else {
                throw TokenError(.keys, "another key has the kid \(key.id ?? "")")
            }
            keys.append(key)
            added.append(key)
        }
        return added
    }

    /// Removes all keys with this name. Returns whether the set had such a key.
    package mutating func remove(id: String) -> Bool {
        let count = keys.count
        keys.removeAll { $0.id?.hasSameBytes(as: id) ?? false }
        return keys.count < count
    }

    /// Adds a key that makes tokens from now on. The first `kept` private keys of the set stay, and the
    /// others are removed. Public keys stay, since others sign with their private keys. Returns the removed keys.
    package mutating func rotate(to key: TokenKey, keeping kept: Int) -> [TokenKey] {
        let removed = Array(keys.filter(\.isPrivate).dropFirst(kept))
        keys.removeAll { key in key.isPrivate && removed.contains { $0.key.isSame(as: key.key) } }
        add(key)
        return removed
    }

    /// Returns the set as JSON; with `isPublic` only the public parts, without secrets (HS256).
    package func encoded(isPublic: Bool) -> [UInt8] {
        JSONWriter.object { writer in
            writer.array("keys") { writer in
                for key in keys { key.write(&writer, isPublic: isPublic) }
            }
        }
    }

    /// Whether the set has a key with the same public half, or the same secret.
    package func contains(_ key: TokenKey) -> Bool { keys.contains { $0.key.isSame(as: key.key) } }

    /// Returns the keys that may have made a token with this key name and algorithm. A name belongs to at most one key
    /// per algorithm; a token without a name may be of any key of its algorithm.
    func candidates(id: String?, _ algorithm: SignatureAlgorithm) throws(TokenError) -> [TokenKey] {
        if let id, case let named = named(id), !named.isEmpty {
            // The check of the algorithm stops an attacker who uses the public key of an RSA pair as an HMAC secret.
            guard let key = named.first(where: { $0.algorithm == algorithm }) else {
                throw TokenError(.algorithm, "its algorithm is not that of its key")
            }
            return [key]
        }
        let candidates = keys.filter { $0.algorithm == algorithm && (id == nil || $0.id == nil) }
        guard !candidates.isEmpty else { throw TokenError(.unknownKey, "made by an unknown key") }
        return candidates
    }
}
