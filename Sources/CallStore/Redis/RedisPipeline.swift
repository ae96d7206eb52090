import SignalingProtocol

/// The commands of one round trip, as Redis reads them.
struct RedisPipeline {
    /// One command's place in `bytes`.
    struct Command {
        let range: Range<Int>
        /// A script does nothing when Redis does not know it; any other command may be made twice.
        let isScript: Bool
    }

    private(set) var bytes: [UInt8] = []
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

    private mutating func add(_ count: Int, isScript: Bool, _ write: (inout RedisWords) -> Void) {
        let start = bytes.count
        bytes.append(UInt8(ascii: "*"))
        bytes.append(digitsOf: UInt64(count))
        bytes.append(contentsOf: RedisWords.lineEnd)
        var words = RedisWords(bytes: bytes)
        bytes = []
        write(&words)
        precondition(words.count == count, "\(words.count) words where \(count) were announced")
        bytes = words.bytes
        commands.append(Command(range: start..<bytes.count, isScript: isScript))
    }

    /// Those of another pipeline at these places.
    init(_ other: RedisPipeline, _ places: [Int]) {
        hashes = other.hashes
        for place in places {
            let command = other.commands[place]
            let start = bytes.count
            bytes += other.bytes[command.range]
            commands.append(Command(range: start..<bytes.count, isScript: command.isScript))
        }
    }
}

/// The words of one command.
struct RedisWords {
    fileprivate static let lineEnd: [UInt8] = [0x0D, 0x0A]
    fileprivate var bytes: [UInt8]
    fileprivate var count = 0

    fileprivate init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func add(_ word: [UInt8]) {
        begin(word.count)
        bytes += word
        bytes += Self.lineEnd
    }

    mutating func add(_ word: UnsafeBufferPointer<UInt8>) {
        begin(word.count)
        bytes.append(contentsOf: word)
        bytes += Self.lineEnd
    }

    mutating func add(_ word: String) {
        var word = word
        word.withUTF8 { add($0) }
    }

    mutating func add(_ number: Int64, after mark: UInt8? = nil) {
        var word: [UInt8] = []
        word.reserveCapacity(21)
        if let mark { word.append(mark) }
        if number < 0 { word.append(UInt8(ascii: "-")) }
        word.append(digitsOf: number.magnitude)
        add(word)
    }

    /// A word of several parts.
    mutating func add(_ first: some Collection<UInt8>, _ second: some Collection<UInt8>) {
        begin(first.count + second.count)
        bytes.append(contentsOf: first)
        bytes.append(contentsOf: second)
        bytes += Self.lineEnd
    }

    private mutating func begin(_ length: Int) {
        bytes.append(UInt8(ascii: "$"))
        bytes.append(digitsOf: UInt64(length))
        bytes += Self.lineEnd
        count += 1
    }
}
