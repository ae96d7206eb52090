import CallStore
import SignalingProtocol

/// The commands of one round trip, encoded for Redis. A cluster makes a round trip for each stage.
struct RedisPipeline {
    /// The servers of a cluster that run a command.
    enum Route {
        /// The server of the command's first key.
        case key
        /// The server whose clock is the store's.
        case clock
        /// All servers with keys.
        case every
        /// The servers that got commands of the pipeline: `WAIT`, the last command of a pipeline that writes. The reply
        /// is the reply with the least number.
        case written
    }

    /// The place of a command in `bytes`.
    struct Command {
        let range: Range<Int>
        /// Whether the command is a script. Redis does not run an unknown script; other commands may be repeated.
        let isScript: Bool
        let route: Route
    }

    private var words = RedisWords()
    private(set) var commands: [Command] = []
    /// The places of the commands before which a cluster waits for the replies to all commands before.
    private(set) var stages: [Int] = []
    private let hashes: [RedisScript: [UInt8]]

    /// Creates an empty pipeline; `hashes` holds the scripts' names at the server.
    init(hashes: [RedisScript: [UInt8]] = [:]) {
        self.hashes = hashes
    }

    /// Begins a stage: on a cluster, the next commands are sent when all commands before are answered.
    mutating func beginStage() { stages.append(commands.count) }

    /// Adds a command with `count` words after its name. `write` adds these words.
    mutating func command(
        _ name: StaticString, _ count: Int = 0, to route: Route = .key, _ write: (inout RedisWords) -> Void = { _ in }
    ) {
        add(count + 1, isScript: false, route) { words in
            words.add(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
            write(&words)
        }
    }

    /// Adds a script with the given numbers of keys and of arguments. `write` adds the keys and then the arguments.
    mutating func script(
        _ script: RedisScript, keys: Int, arguments: Int, _ write: (inout RedisWords) -> Void
    ) {
        let hash = hashes[script] ?? []
        add(3 + keys + arguments, isScript: true, .key) { words in
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

    private mutating func add(_ count: Int, isScript: Bool, _ route: Route, _ write: (inout RedisWords) -> Void) {
        let start = words.begin(count)
        write(&words)
        precondition(words.count == count, "\(words.count) words where \(count) were announced")
        commands.append(Command(range: start..<words.end, isScript: isScript, route: route))
    }

    /// Copies the commands of another pipeline at these places.
    init(_ other: RedisPipeline, _ places: [Int]) {
        hashes = other.hashes
        for place in places { copy(other, place) }
    }

    /// Adds a copy of a command of another pipeline.
    mutating func copy(_ other: RedisPipeline, _ place: Int) {
        let command = other.commands[place]
        let start = words.end
        words.add(other.words, command.range)
        commands.append(Command(range: start..<words.end, isScript: command.isScript, route: command.route))
    }

    /// The hash slot of a command's first key.
    func slot(of command: Command) -> RedisSlot {
        words.bytes.withUnsafeBytes { bytes in
            // Before the first key, a script has its command's name, its hash and the number of keys.
            let key = RedisWords.word(command.isScript ? 3 : 1, in: UnsafeBufferPointer(rebasing: bytes[command.range]))
            return RedisSlot(ofKey: key)
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

    /// Returns a word of an encoded command.
    fileprivate static func word(
        _ number: Int, in command: UnsafeBufferPointer<UInt8>
    ) -> UnsafeBufferPointer<UInt8> {
        var place = 0
        /// Reads the number of a line such as `$12`, and goes to the next line.
        func count() -> Int {
            var count = 0
            while command[place] != UInt8(ascii: "\r") {
                count = count * 10 + (Int(command[place] & 0xF))
                place += 1
            }
            place += 2
            return count
        }
        place += 1
        _ = count()
        for _ in 0..<number {
            place += 1
            let length = count()
            place += length + 2
        }
        place += 1
        let length = count()
        return UnsafeBufferPointer(rebasing: command[place..<place + length])
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
