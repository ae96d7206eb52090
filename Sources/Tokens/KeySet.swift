import Glibc
import SignalingProtocol

/// The keys of a deployment: a JSON Web Key Set (RFC 7517, section 5). Several of them stand beside each other while one
/// replaces another.
package struct KeySet: Sendable {
    package static let maxKeys = 64
    package static let maxFileBytes = 1 << 20

    /// In the order of the file. The first private one makes tokens.
    package private(set) var keys: [TokenKey]

    package init(_ keys: [TokenKey]) { self.keys = keys }

    /// Reads a key set, or a single key. Keys of kinds that are not used here are passed over; a damaged one is an error, and so is
    /// a set of which nothing remains.
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
            guard let object = entry.object else { throw TokenError(.keys, "key \(place + 1): not a JSON object") }
            do throws(TokenError) {
                if let key = try TokenKey(object) { keys.append(key) }
            } catch {
                throw TokenError(.keys, "key \(place + 1): \(error)")
            }
        }
        let names = keys.compactMap(\.id).map(ByteString.init)
        guard Set(names).count == names.count else { throw TokenError(.keys, "two keys have the same kid") }
        guard !keys.isEmpty else {
            throw TokenError(
                .keys, "no key for one of \(SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))")
        }
    }

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
            try self.init(json: Array(bytes.prefix(count)))
        } catch {
            throw TokenError(.keys, "\(path): \(error)")
        }
    }

    /// The key that makes tokens.
    package var signingKey: TokenKey? { keys.first { $0.isPrivate } }

    /// With a new key that makes tokens from now on; what the others made still counts.
    package mutating func add(_ key: TokenKey) { keys.insert(key, at: 0) }

    /// As JSON; with `isPublic` only what everybody may know. Secrets (HS256) are then left out.
    package func encoded(isPublic: Bool) -> [UInt8] {
        JSONWriter.object { writer in
            writer.array("keys") { writer in
                for key in keys { key.write(&writer, isPublic: isPublic) }
            }
        }
    }

    /// Whether a key with the same public half, or the same secret, is among them.
    package func contains(_ key: TokenKey) -> Bool { keys.contains { $0.key.isSame(as: key.key) } }

    /// The keys that may have made a token which names this key and algorithm. One name, one key; a token without a name may
    /// be of any key of its algorithm.
    func candidates(id: String?, _ algorithm: SignatureAlgorithm) throws(TokenError) -> [TokenKey] {
        if let id, let named = keys.first(where: { $0.id?.hasSameBytes(as: id) ?? false }) {
            // An attacker who signs with the public key of an RSA pair as if it were a secret gets no further than here.
            guard named.algorithm == algorithm else {
                throw TokenError(.algorithm, "its algorithm is not that of its key")
            }
            return [named]
        }
        let candidates = keys.filter { $0.algorithm == algorithm && (id == nil || $0.id == nil) }
        guard !candidates.isEmpty else { throw TokenError(.unknownKey, "made by a key that is not known here") }
        return candidates
    }
}
