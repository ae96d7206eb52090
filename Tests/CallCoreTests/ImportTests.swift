import FoundationEssentials
import Testing

/// The core decides and does no I/O: the core cannot use a module that it does not import.
@Suite struct ImportTests {
    @Test(arguments: [
        ("CallCore", ["SignalingProtocol"]), ("SignalingProtocol", []),
        ("Basics", ["Darwin", "Glibc", "Musl"]), ("MQTTProtocol", ["Basics"]),
        ("BellwireClientCore", ["Basics", "SignalingProtocol"]), ("Support", ["Glibc", "Synchronization"]),
        ("CallStore", ["CallCore", "Glibc", "SignalingProtocol", "Support", "Synchronization"]),
    ])
    func theTargetImportsNothingElse(target: String, allowed: [String]) throws {
        let files = try sources(of: target)
        #expect(!files.isEmpty)
        for (name, text) in files {
            let imported = text.split(separator: "\n").compactMap(module)
            #expect(Set(imported).isSubset(of: allowed), "\(name)")
        }
    }

    /// Within a target imports say nothing: a folder names no type of a folder that stands above it.
    @Test(arguments: [
        ("CallCore/Machine", above: ["CallCore/Deciding"]),
        ("Delivery/Settings", above: ["Delivery/Push", "Delivery/Webhooks", "Delivery/Workers"]),
        ("Delivery/Push", above: ["Delivery/Webhooks", "Delivery/Workers"]),
        ("Delivery/Webhooks", above: ["Delivery/Push", "Delivery/Workers"]),
    ])
    func theFolderKnowsNothingOfThoseAboveIt(folder: String, above: [String]) throws {
        let foreign = Set(try above.flatMap { try sources(of: $0) }.flatMap { declaredTypes($0.text) })
        #expect(foreign.count > 5)
        for (name, text) in try sources(of: folder) {
            let code = text.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("//") }
            let words = code.flatMap { $0.split { !$0.isLetter && !$0.isNumber && $0 != "_" } }
            #expect(foreign.isDisjoint(with: words), "\(name): \(foreign.intersection(words).sorted())")
        }
    }

    @Test func anImportIsRecognisedInEveryForm() {
        #expect(module(in: "import Foundation") == "Foundation")
        #expect(module(in: "  @_exported public import struct Glibc.timespec // why") == "Glibc")
        #expect(module(in: "#if canImport(Foundation)") == nil)
        #expect(module(in: "/// Clients import nothing.") == nil)
    }

    /// The table of docs/architecture.md is true: each file exists, and has the function that the table names.
    @Test func whereToLookForABehaviourIsTrue() throws {
        let table = try text("docs/architecture.md").split(separator: "\n").filter { $0.contains(".swift`: `") }
        #expect(table.count == 34)
        for row in table {
            let places = row.split(separator: "|")[1].split(separator: ";")
            // The way of ZIM's `callInvite` leads through four layers.
            #expect(places.count <= (row.contains("`callInvite`") ? 4 : 2), "\(row)")
            for place in places {
                let names = place.split(separator: "`", omittingEmptySubsequences: false)
                let (file, symbol) = (names[1], names[3])
                let words = try text("Sources/\(file)").split { !$0.isLetter && !$0.isNumber && $0 != "_" }
                let declared = zip(words, words.dropFirst()).contains { kind, name in
                    ["func", "var", "case", "struct", "enum", "class"].contains(kind) && name == symbol
                }
                #expect(declared, "\(symbol) in \(file)")
            }
        }
    }

    /// A type with more than 200 lines of code says why in its doc comment.
    @Test(arguments: ["Coordinator", "CallCore/Deciding"])
    func noTypeIsLongWithoutAReason(target: String) throws {
        var lines: [Substring: Int] = [:]
        var explained: Set<Substring> = []
        for (_, text) in try sources(of: target) {
            var open: (name: Substring, lines: Int)?
            var comment = ""
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                if line.hasPrefix("///") { comment += line }
                if open == nil, let name = declaredType(line) {
                    if comment.contains("More than 200 lines: ") { explained.insert(name) }
                    if line.hasSuffix("}") { lines[name, default: 0] += 1 } else { open = (name, 1) }
                } else if let (name, count) = open {
                    // Comments do not count.
                    open = (name, line.drop { $0 == " " }.hasPrefix("//") ? count : count + 1)
                    if line.hasPrefix("}") {
                        lines[name, default: 0] += count + 1
                        open = nil
                    }
                }
                if !line.hasPrefix("///") { comment = "" }
            }
        }
        #expect(lines.count > 20)
        #expect(lines.filter { $0.value > 200 && !explained.contains($0.key) } == [:])
        #expect(explained.allSatisfy { lines[$0] ?? 0 > 200 }, "a reason for what is short by now")
    }

    /// Returns the types that are declared at the beginning of a line and that other files see; extensions do not
    /// count.
    private func declaredTypes(_ text: String) -> [Substring] {
        text.split(separator: "\n").compactMap { line in
            line.contains("extension ") || line.contains("private ") ? nil : declaredType(line)
        }
    }

    /// Returns the type of a declaration that begins a line.
    private func declaredType(_ line: Substring) -> Substring? {
        let words = line.split { $0 == " " || $0 == ":" || $0 == "<" }
        guard let first = words.first, line.hasPrefix(first) else { return nil }
        let kinds: Set<Substring> = ["struct", "class", "enum", "extension", "protocol", "actor"]
        guard let place = words.firstIndex(where: kinds.contains), place + 1 < words.count,
            words[..<place].allSatisfy({ isModifier($0) || $0 == "final" })
        else { return nil }
        return words[place + 1]
    }

    private func text(_ path: String) throws -> String {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        return try String(contentsOf: URL(filePath: "\(root)/\(path)"), encoding: .utf8)
    }

    private func module(in line: Substring) -> String? {
        let words = line.split { $0 == " " || $0 == "\t" || $0 == ";" }
        guard let place = words.firstIndex(of: "import"), words[..<place].allSatisfy(isModifier) else { return nil }
        let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias"]
        let name = words[(place + 1)...].first { !kinds.contains($0) }
        return name?.split(separator: ".").first.map(String.init)
    }

    private func isModifier(_ word: Substring) -> Bool {
        word.hasPrefix("@") || ["public", "package", "internal", "private", "fileprivate"].contains(word)
    }

    /// Every Swift file below the target's folder.
    private func sources(of target: String) throws -> [(name: String, text: String)] {
        var root = #filePath.split(separator: "/", omittingEmptySubsequences: false)
        root.removeLast(3)
        let folder = URL(filePath: (root + ["Sources", Substring(target)]).joined(separator: "/"))
            .resolvingSymlinksInPath()
        // The programs of a tutorial belong to its readers.
        return try FileManager.default.subpathsOfDirectory(atPath: folder.path())
            .filter { $0.hasSuffix(".swift") && !$0.contains(".docc/") }
            .map { ($0, try String(contentsOf: folder.appending(path: $0), encoding: .utf8)) }
    }
}
