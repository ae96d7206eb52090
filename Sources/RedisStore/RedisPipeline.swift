import CallStore
import SignalingProtocol

/// The commands of one round trip, as Redis reads them.
struct RedisPipeline {
    /// One command's place in `bytes`.
    struct Command {
        let range: Range<Int>
        /// A script does nothing when Redis does not know it; any other command may be made twice.
        let isScript: Bool
    }

    private var words = RedisWords()
    private(set) var commands: [Command] = []
    private let hashes: [RedisScript: [UInt8]]

    /// `hashes`: the names by which the server knows the scripts.
    init(hashes: [RedisScript: [UInt8]] = [:]) {
        self.hashes = hashes
    }

    /// A command with so many words behind its name, which `write` writes.
    mutating func command(_ name: StaticString, _ count: Int = 0, _ write: (inout RedisWords) -> Void = { _ in }) {
        add(count + 1, isScript: false) { words in
            words.add(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
            write(&words)
        }
    }

    /// A script with so many keys and then so many arguments.
    mutating func script(
        _ script: RedisScript, keys: Int, arguments: Int, _ write: (inout RedisWords) -> Void
    ) {
        let hash = hashes[script] ?? []
        add(3 + keys + arguments, isScript: true) { words in
            words.add("EVALSHA")
            words.add(hash)
            words.add(Int64(keys))
            write(&words)
        }
    }

    /// As they are sent.
    var bytes: [UInt8] { words.bytes.bytes }

    func withUnsafeBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        words.bytes.withUnsafeBytes(body)
    }

    private mutating func add(_ count: Int, isScript: Bool, _ write: (inout RedisWords) -> Void) {
        let start = words.begin(count)
        write(&words)
        precondition(words.count == count, "\(words.count) words where \(count) were announced")
        commands.append(Command(range: start..<words.end, isScript: isScript))
    }

    /// Those of another pipeline at these places.
    init(_ other: RedisPipeline, _ places: [Int]) {
        hashes = other.hashes
        for place in places {
            let command = other.commands[place]
            let start = words.end
            words.add(other.words, command.range)
            commands.append(Command(range: start..<words.end, isScript: command.isScript))
        }
    }
}

/// The words of commands, one command after the other.
struct RedisWords {
    fileprivate private(set) var bytes = ByteBuffer(capacity: 1024)
    /// Where the next command begins.
    fileprivate var end: Int { bytes.count }
    /// Of the last command.
    fileprivate private(set) var count = 0

    /// Begins a command of so many words, and returns where it begins.
    fileprivate mutating func begin(_ count: Int) -> Int {
        let start = bytes.count
        self.count = 0
        bytes.append(UInt8(ascii: "*"))
        bytes.append(digitsOf: UInt64(count))
        endLine()
        return start
    }

    /// Takes over what stands there in others.
    fileprivate mutating func add(_ other: RedisWords, _ range: Range<Int>) {
        other.bytes.withUnsafeBytes { bytes.append(UnsafeBufferPointer(rebasing: $0[range])) }
    }

    mutating func add(_ word: [UInt8]) {
        announce(word.count)
        bytes.append(word)
        endLine()
    }

    mutating func add(_ word: UnsafeBufferPointer<UInt8>) {
        announce(word.count)
        bytes.append(word)
        endLine()
    }

    mutating func add(_ word: String) {
        var word = word
        word.withUTF8 { add($0) }
    }

    mutating func add(_ key: RedisKey) {
        announce(key.count)
        bytes.append(key.prefix)
        bytes.append(key.name)
        bytes.append(key.end)
        bytes.append(key.kind)
        bytes.append(key.detail)
        endLine()
    }

    mutating func add(_ number: Int64, after mark: UInt8? = nil) {
        announce(number.magnitude.decimalLength + (number < 0 ? 1 : 0) + (mark == nil ? 0 : 1))
        if let mark { bytes.append(mark) }
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.append(digitsOf: number.magnitude)
        endLine()
    }

    /// A word of several parts: two names with a mark before each.
    mutating func add(_ mark: StaticString, _ first: String, _ between: StaticString, _ second: String) {
        announce(
            mark.utf8CodeUnitCount + first.utf8.count + between.utf8CodeUnitCount + second.utf8.count)
        bytes.append(mark)
        bytes.append(first)
        bytes.append(between)
        bytes.append(second)
        endLine()
    }

    private mutating func announce(_ length: Int) {
        bytes.append(UInt8(ascii: "$"))
        bytes.append(digitsOf: UInt64(length))
        endLine()
        count += 1
    }

    private mutating func endLine() { bytes.append("\r\n" as StaticString) }
}
