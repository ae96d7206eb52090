import Foundation

/// An app of the tests: commands come on standard input, and news leaves on standard output, a JSON object a line.
package final class Probe {
    package typealias Command = [String: Any]

    /// A command of the app is being done.
    private var isInside = false
    private let perform: (Command) -> Void
    private let isMain = DispatchSpecificKey<Bool>()

    package init(perform: @escaping (Command) -> Void) {
        self.perform = perform
        DispatchQueue.main.setSpecific(key: isMain, value: true)
    }

    /// Writes a line of news. `inside`: the news came within a call of the app; `main`: the news came on the main
    /// queue.
    package func tell(_ what: String, _ fields: [String: Any] = [:]) {
        var line = fields
        line["told"] = what
        line["inside"] = isInside
        line["main"] = DispatchQueue.getSpecific(key: isMain) ?? false
        var data = try! JSONSerialization.data(withJSONObject: line)
        data.append(10)
        FileHandle.standardOutput.write(data)
    }

    /// Ends with its input.
    package func run() -> Never {
        Thread.detachNewThread { [self] in
            while let line = readLine() {
                let command = try! JSONSerialization.jsonObject(with: Data(line.utf8)) as! Command
                DispatchQueue.main.async { self.take(command) }
            }
            exit(0)
        }
        dispatchMain()
    }

    /// Performs a command; news that comes meanwhile comes within a call of the app.
    private func take(_ command: Command) {
        isInside = true
        perform(command)
        isInside = false
        if let number = command["number"] { tell("done", ["number": number]) }
    }
}

/// Gives one token after another, and the last token again and again.
///
/// Sendable: the lock guards the changing state.
package final class Tokens: @unchecked Sendable {
    private let lock = NSLock()
    private var tokens: [String]

    package init(_ tokens: [String]) { self.tokens = tokens }

    package func next() -> String {
        lock.lock()
        defer { lock.unlock() }
        return tokens.count > 1 ? tokens.removeFirst() : tokens.first ?? ""
    }
}

extension [String: Any] {
    package func text(_ key: String) -> String { self[key] as? String ?? "" }
    package func texts(_ key: String) -> [String] { self[key] as? [String] ?? [] }
    package func number(_ key: String) -> Int { self[key] as? Int ?? 0 }
    package func flag(_ key: String) -> Bool { self[key] as? Bool ?? false }

    package static func + (left: Self, right: Self) -> Self { left.merging(right) { _, new in new } }
}
