import Glibc
import Tokens

/// `bellwire keys`: makes the keys that sign tokens, and the key set with which a broker checks tokens.
package enum KeysCommand {
    private static let generate = Command(
        name: "keys generate", arguments: "",
        summary: """
            Makes a key that signs tokens and writes it into a file (a JWK set) that only its owner may read.
            With --add the file keeps its keys: the new key signs from now on, and tokens of the others stay valid.
            """,
        options: [
            Option("out", "FILE", "the file; required"),
            Option(
                "algorithm", "NAME", default: SignatureAlgorithm.es256.rawValue,
                "\(algorithms); a process that checks HS256 tokens can also make them"),
            Option(switch: "add", "put the key in front of the keys in the file"),
        ], positionals: 0...0)

    private static let publish = Command(
        name: "keys public", arguments: "",
        summary: "Writes the public halves of the keys, with which a broker checks tokens. They are not secret.",
        options: [
            Option("keys", "FILE", "the key set; required"),
            Option("out", "FILE", default: "-", "the file; - is the standard output"),
        ], positionals: 0...0)

    private static let file = Option("keys", "FILE", "the key set; required")

    private static let list = Command(
        name: "keys list", arguments: "", summary: "Prints the keys of a set: kid, algorithm, and what the key does.",
        options: [file], positionals: 0...0)

    private static let add = Command(
        name: "keys add", arguments: "",
        summary: """
            Adds the public halves of another set's keys behind the keys of the file, such as the key of a backend that
            makes its own tokens. The key that signs stays.
            """,
        options: [file, Option("from", "FILE", "the set with the keys to add; required")], positionals: 0...0)

    private static let remove = Command(
        name: "keys remove", arguments: "KID",
        summary: """
            Removes a key. Its tokens end with the broker's next reading of the set. When the key signed, the next
            private key signs.
            """,
        options: [file], positionals: 1...1)

    private static let rotate = Command(
        name: "keys rotate", arguments: "",
        summary: """
            Makes a key that signs from now on. The private keys before it stay to check tokens, up to --keep, and the
            others are removed; public keys stay.
            """,
        options: [
            file,
            Option("algorithm", "NAME", default: SignatureAlgorithm.es256.rawValue, algorithms),
            Option("keep", "N", default: "1", "the number of former private keys that stay: 0 to 60"),
        ], positionals: 0...0)

    private static let usage = """
        usage: bellwire keys generate|public|list|add|remove|rotate [options]

        commands:
          keys generate   make a key that signs tokens
          keys public     write the public keys with which a broker checks tokens
          keys list       print the keys of a set
          keys add        add the keys of another set
          keys remove     remove a key
          keys rotate     make a key that signs, and remove keys that are out of use
        """

    private static let algorithms = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")

    package static func run(_ words: [String]) throws {
        var words = words
        let name = words.isEmpty ? "" : words.removeFirst()
        switch name {
        case "generate": try generate(words)
        case "public": try publish(words)
        case "list": try list(words)
        case "add": try add(words)
        case "remove": try remove(words)
        case "rotate": try rotate(words)
        case "--help", "-h", "help": print(usage)
        default:
            throw UsageError(
                "bellwire keys: expected generate, public, list, add, remove or rotate; see bellwire keys --help")
        }
    }

    private static func generate(_ words: [String]) throws {
        let arguments = try Arguments(generate, words)
        let path = try arguments.required("out", "a file") { $0.isEmpty ? nil : $0 }
        let algorithm = try arguments.required("algorithm", algorithms, SignatureAlgorithm.init(rawValue:))
        let isThere = access(path, F_OK) == 0
        guard !isThere || arguments.isSet("add") else {
            throw UsageError("bellwire keys generate: \(path) is there already; --add puts a key beside its keys")
        }
        var keys = isThere ? try changeable(path, arguments) : KeySet([])
        guard keys.keys.count < KeySet.maxKeys else {
            throw UsageError("bellwire keys generate: \(path) has \(KeySet.maxKeys) keys: remove keys out of use")
        }
        let key = try TokenKey.generate(algorithm)
        keys.add(key)
        try writeFile(keys.encoded(isPublic: false), to: path, mode: 0o600)
        writeError("\(path): \(algorithm.rawValue) key \(key.id ?? "") signs from now on")
    }

    private static func publish(_ words: [String]) throws {
        let arguments = try Arguments(publish, words)
        let keys = try KeySet(file: try arguments.required("keys", "a file") { $0.isEmpty ? nil : $0 })
        for key in keys.unusable { writeError("a key cannot be used and is left out: \(key)") }
        guard keys.keys.allSatisfy(\.algorithm.isAsymmetric) else {
            throw UsageError("bellwire keys public: an HS256 key has no public half: the broker needs the file itself")
        }
        let path = try arguments.required("out", "a file") { $0.isEmpty ? nil : $0 }
        let bytes = keys.encoded(isPublic: true)
        if path == "-" {
            writeOutput(String(decoding: bytes, as: UTF8.self))
        } else {
            try writeFile(bytes, to: path, mode: 0o644)
        }
    }

    // MARK: Changing a set

    /// Returns the path of `--keys`, and the set there, whose keys can all be written again.
    private static func changeable(_ arguments: Arguments) throws -> (path: String, keys: KeySet) {
        let path = try arguments.required("keys", "a file") { $0.isEmpty ? nil : $0 }
        return (path, try changeable(path, arguments))
    }

    private static func changeable(_ path: String, _ arguments: Arguments) throws -> KeySet {
        let keys = try KeySet(file: path)
        guard !keys.hasOthers else {
            let reasons = keys.unusable.isEmpty ? ["a key is not for signatures"] : keys.unusable
            throw UsageError(
                "\(arguments.command.title): \(path) has keys that would be lost: \(reasons.joined(separator: "; "))")
        }
        return keys
    }

    /// Writes a set. A set without private keys is no secret.
    private static func write(_ keys: KeySet, to path: String, _ arguments: Arguments) throws {
        guard keys.keys.count <= KeySet.maxKeys else {
            throw UsageError("\(arguments.command.title): \(path) would have more than \(KeySet.maxKeys) keys")
        }
        let isSecret = keys.keys.contains { $0.isPrivate || !$0.algorithm.isAsymmetric }
        try writeFile(keys.encoded(isPublic: false), to: path, mode: isSecret ? 0o600 : 0o644)
    }

    private static func list(_ words: [String]) throws {
        let arguments = try Arguments(list, words)
        let keys = try KeySet(file: try arguments.required("keys", "a file") { $0.isEmpty ? nil : $0 })
        for (place, key) in keys.keys.enumerated() {
            let isSigner = place == keys.keys.firstIndex(where: \.isPrivate)
            let use = isSigner ? "signs" : key.isPrivate ? "checks tokens, private" : "checks tokens, public"
            writeOutput("\(key.id ?? "-") \(key.algorithm.rawValue) \(use)")
        }
        for key in keys.unusable { writeError("a key cannot be used: \(key)") }
    }

    private static func add(_ words: [String]) throws {
        let arguments = try Arguments(add, words)
        var (path, keys) = try changeable(arguments)
        let others = try KeySet(file: try arguments.required("from", "a file") { $0.isEmpty ? nil : $0 })
        guard others.keys.allSatisfy(\.algorithm.isAsymmetric) else {
            throw UsageError(
                "bellwire keys add: an HS256 key has no public half: a process that checks its tokens can make them")
        }
        let added = try keys.append(try KeySet(json: others.encoded(isPublic: true)).keys)
        try write(keys, to: path, arguments)
        for key in others.unusable { writeError("a key cannot be used and is left out: \(key)") }
        for key in added { writeError("\(path): \(key.algorithm.rawValue) key \(key.id ?? "-") added") }
        if added.isEmpty { writeError("\(path) has these keys already") }
    }

    private static func remove(_ words: [String]) throws {
        let arguments = try Arguments(remove, words)
        let id = arguments.positionals[0]
        var (path, keys) = try changeable(arguments)
        guard keys.remove(id: id) else { throw UsageError("bellwire keys remove: \(path) has no key \(id)") }
        guard !keys.keys.isEmpty else {
            throw UsageError("bellwire keys remove: \(id) is the last key of \(path): make another with keys rotate")
        }
        try write(keys, to: path, arguments)
        let signer = keys.signingKey.map { "key \($0.id ?? "-") signs" } ?? "no key signs"
        writeError("\(path): key \(id) removed; \(signer)")
    }

    private static func rotate(_ words: [String]) throws {
        let arguments = try Arguments(rotate, words)
        let algorithm = try arguments.required("algorithm", algorithms, SignatureAlgorithm.init(rawValue:))
        let kept = try arguments.integer("keep", in: 0...60)
        var (path, keys) = try changeable(arguments)
        guard keys.signingKey != nil else {
            throw UsageError("bellwire keys rotate: \(path) has public keys alone: rotate the set that signs")
        }
        let key = try TokenKey.generate(algorithm)
        let removed = keys.rotate(to: key, keeping: kept)
        try write(keys, to: path, arguments)
        writeError("\(path): \(algorithm.rawValue) key \(key.id ?? "-") signs from now on")
        for key in removed { writeError("\(path): key \(key.id ?? "-") removed") }
    }
}
