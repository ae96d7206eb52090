import CallStore
import SignalingProtocol

/// The commands of one round trip, encoded for Redis.
struct RedisPipeline {
    /// The place of a command in `bytes`.
    struct Command {
        let range: Range<Int>
        /// Whether the command is a script. Redis does not run an unknown script; other commands may be repeated.
        let isScript: Bool
    }

    private var words = RedisWords()
    private(set) var commands: [Command] = []
    private let hashes: [RedisScript: [UInt8]]

    /// Creates an empty pipeline; `hashes` holds the scripts' names at the server.
    init(hashes: [RedisScript: [UInt8]] = [:]) {
        self.hashes = hashes
    }

    /// Adds a command with `count` words after its name. `write` adds these words.
    mutating func command(_ name: StaticString, _ count: Int = 0, _ write: (inout RedisWords) -> Void = { _ in }) {
        add(count + 1, isScript: false) { words in
            words.add(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
            write(&words)
        }
    }

    /// Adds a script with the given numbers of keys and of arguments. `write` adds the keys and then the arguments.
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

    /// The encoded commands.
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

    /// Copies the commands of another pipeline at these places.
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

/// The words of commands, in order.
struct RedisWords {
    fileprivate private(set) var bytes = ByteBuffer(capacity: 1024)
    /// The place of the next command.
    fileprivate var end: Int { bytes.count }
    /// The number of words of the last command.
    fileprivate private(set) var count = 0

    /// Begins a command with `count` words, and returns its place.
    fileprivate mutating func begin(_ count: Int) -> Int {
        let start = bytes.count
        self.count = 0
        bytes.append(UInt8(ascii: "*"))
        bytes.append(digitsOf: UInt64(count))
        endLine()
        return start
    }

    /// Copies a range of other words.
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

    /// Adds a word of four parts: two names, each after a mark.
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
