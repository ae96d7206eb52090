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

    private static let usage = """
        usage: bellwire keys generate|public [options]

        commands:
          keys generate   make a key that signs tokens
          keys public     write the public keys with which a broker checks tokens
        """

    private static let algorithms = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")

    package static func run(_ words: [String]) throws {
        var words = words
        let name = words.isEmpty ? "" : words.removeFirst()
        switch name {
        case "generate": try generate(words)
        case "public": try publish(words)
        case "--help", "-h", "help": print(usage)
        default: throw UsageError("bellwire keys: expected generate or public; see bellwire keys --help")
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
        var keys = isThere ? try KeySet(file: path) : KeySet([])
        guard !keys.hasOthers else {
            let reasons = keys.unusable.isEmpty ? ["a key is not for signatures"] : keys.unusable
            throw UsageError(
                "bellwire keys generate: \(path) has keys that would be lost: \(reasons.joined(separator: "; "))")
        }
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
}
