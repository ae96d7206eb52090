import CallStore
import Glibc
import Tokens

/// The file of a backup: a line that names the format of the file, the head as a line of JSON, the entries, and a
/// SHA-256 of everything before. An entry is the number of its fields, and each field with its length; an entry without
/// fields ends the entries. Numbers have four bytes, the most significant first.
enum BackupFile {
    static let firstLine = "bellwire backup 1\n"
    /// The longest first two lines, in bytes.
    static let headBytes = 4_096
    static let digestBytes = 32
    /// The number of bytes that are read or written at a time.
    static let chunk = 1 << 20

    static func number(_ value: Int) -> [UInt8] {
        withUnsafeBytes(of: UInt32(value).bigEndian) { Array($0) }
    }

    static func failure(_ path: String) -> StoreError {
        StoreError(.failed, "\(path): \(String(cString: strerror(errno)))")
    }
}

/// Writes a backup. The file has its name only when it is complete.
final class BackupFileWriter {
    private let path: String
    /// The name of the file while it is written; nil for the standard output.
    private let temporary: String?
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    private let digest = DigestStream()
    private(set) var bytes = 0
    private var isComplete = false

    /// Creates the file, which only its owner may read. `-` is the standard output.
    init(_ path: String) throws(StoreError) {
        self.path = path
        if path == "-" {
            temporary = nil
            descriptor = STDOUT_FILENO
            guard isatty(descriptor) == 0 else {
                throw StoreError(.failed, "the standard output is a terminal, and a backup is not text: --out FILE")
            }
            return
        }
        guard access(path, F_OK) != 0 else { throw StoreError(.failed, "\(path) is there already") }
        let temporary = "\(path).\(getpid())"
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw BackupFile.failure(path) }
        self.temporary = temporary
    }

    deinit {
        guard let temporary else { return }
        close(descriptor)
        if !isComplete { unlink(temporary) }
    }

    func write(_ head: BackupHead, version: String, at moment: String) throws(StoreError) {
        try write(Array((BackupFile.firstLine + head.text(version: version, moment: moment) + "\n").utf8))
    }

    func write(_ entry: BackupEntry) throws(StoreError) {
        try write(BackupFile.number(entry.count))
        for field in entry {
            guard field.count <= Int(UInt32.max) else { throw StoreError(.failed, "a value has more than 4 GiB") }
            try write(BackupFile.number(field.count))
            try write(field)
        }
    }

    /// Ends the entries, writes the checksum, and gives the file its name.
    func finish() throws(StoreError) {
        try write(BackupFile.number(0))
        try flush()
        buffer = digest.finish()
        try flush(isDigest: true)
        isComplete = true
        guard let temporary else { return }
        // `link` fails when another process made a file of this name meanwhile.
        guard fsync(descriptor) == 0, link(temporary, path) == 0 else {
            isComplete = false
            throw BackupFile.failure(path)
        }
        unlink(temporary)
    }

    private func write(_ bytes: [UInt8]) throws(StoreError) {
        buffer += bytes
        if buffer.count >= BackupFile.chunk { try flush() }
    }

    private func flush(isDigest: Bool = false) throws(StoreError) {
        if !isDigest { digest.add(buffer) }
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw BackupFile.failure(path) }
            rest = rest.dropFirst(max(0, count))
        }
        bytes += buffer.count
        buffer.removeAll(keepingCapacity: true)
    }
}

/// Reads a backup. The file is checked as a whole before its first entry is given out.
final class BackupFileReader {
    let head: BackupHead
    private let path: String
    private let file: OpenFile
    /// The place of the first entry, and of the checksum.
    private let entries: Range<Int>

    /// Opens a file, and checks it. `-` is the standard input, which is copied into a temporary file first.
    init(_ path: String) throws(StoreError) {
        let name = path == "-" ? "the standard input" : path
        let file = OpenFile(try path == "-" ? Self.copyOfInput() : open(path, O_RDONLY | O_CLOEXEC))
        var status = stat()
        guard file.descriptor >= 0, fstat(file.descriptor, &status) == 0 else { throw BackupFile.failure(name) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw StoreError(.failed, "\(name) is not a file: - takes the standard input")
        }
        let size = Int(status.st_size)
        let source = BackupSource(file.descriptor, name, end: size)
        let first = try source.read(min(BackupFile.headBytes, size))
        guard first.starts(with: BackupFile.firstLine.utf8) else {
            throw StoreError(.failed, "\(name) is not a backup of Bellwire, or one of a later version")
        }
        let rest = first.dropFirst(BackupFile.firstLine.utf8.count)
        guard let end = rest.firstIndex(of: UInt8(ascii: "\n")), let head = BackupHead(rest[..<end]),
            size - BackupFile.digestBytes > end
        else { throw source.damage }
        entries = end + 1..<size - BackupFile.digestBytes
        self.path = name
        self.file = file
        self.head = head
        try Self.check(source, entries)
    }

    /// Passes all entries to `body`.
    func read(_ body: BackupSink) throws(StoreError) {
        try Self.read(BackupSource(file.descriptor, path, at: entries.lowerBound, end: entries.upperBound), body)
    }

    /// Throws when the file is cut or damaged.
    private static func check(_ source: BackupSource, _ entries: Range<Int>) throws(StoreError) {
        let digest = DigestStream()
        source.place = 0
        while source.place < entries.upperBound {
            digest.add(try source.read(min(BackupFile.chunk, entries.upperBound - source.place)))
        }
        guard try source.read(BackupFile.digestBytes) == digest.finish() else { throw source.damage }
        source.place = entries.lowerBound
        source.end = entries.upperBound
        try read(source) { _ throws(StoreError) in }
    }

    private static func read(_ source: BackupSource, _ body: BackupSink) throws(StoreError) {
        while true {
            let count = try source.number()
            guard count > 0 else { break }
            // Each field has at least the four bytes of its length.
            guard count <= (source.end - source.place) / 4 else { throw source.damage }
            var entry: BackupEntry = []
            entry.reserveCapacity(count)
            for _ in 0..<count { entry.append(try source.read(source.number())) }
            try body(entry)
        }
        guard source.place == source.end else { throw source.damage }
    }

    private static func copyOfInput() throws(StoreError) -> Int32 {
        let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        // `mkstemp` makes a file that only its owner may read. Without a name, the file ends with this process.
        var name = Array("\(directory)/bellwire-restore-XXXXXX".utf8CString)
        let copy = mkstemp(&name)
        guard copy >= 0, unlink(name) == 0 else { throw BackupFile.failure(directory) }
        var chunk = [UInt8](repeating: 0, count: BackupFile.chunk)
        while true {
            let count = Glibc.read(STDIN_FILENO, &chunk, chunk.count)
            if count == 0 { return copy }
            guard count > 0, Glibc.write(copy, chunk, count) == count else {
                if count < 0, errno == EINTR { continue }
                defer { close(copy) }
                throw BackupFile.failure(count < 0 ? "the standard input" : directory)
            }
        }
    }
}

/// A file that is closed when nothing uses it any more.
private final class OpenFile {
    let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { if descriptor >= 0 { close(descriptor) } }
}

/// The bytes of a file from a place on.
private final class BackupSource {
    private let descriptor: Int32
    private let path: String
    var place: Int
    var end: Int
    private var buffer: [UInt8] = []
    private var bufferPlace = 0

    init(_ descriptor: Int32, _ path: String, at place: Int = 0, end: Int) {
        self.descriptor = descriptor
        self.path = path
        self.place = place
        self.end = end
    }

    var damage: StoreError { StoreError(.failed, "\(path) is damaged or not complete: nothing was restored") }

    func number() throws(StoreError) -> Int { try read(4).reduce(0) { $0 << 8 | Int($1) } }

    func read(_ count: Int) throws(StoreError) -> [UInt8] {
        guard count <= end - place else { throw damage }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count {
            let offset = place - bufferPlace
            if offset < 0 || offset >= buffer.count { try fill() }
            let available = buffer[(place - bufferPlace)...].prefix(count - bytes.count)
            bytes += available
            place += available.count
        }
        return bytes
    }

    private func fill() throws(StoreError) {
        buffer = [UInt8](repeating: 0, count: BackupFile.chunk)
        bufferPlace = place
        var count = -1
        repeat { count = pread(descriptor, &buffer, buffer.count, off_t(place)) } while count < 0 && errno == EINTR
        guard count >= 0 else { throw BackupFile.failure(path) }
        guard count > 0 else { throw damage }
        buffer.removeLast(buffer.count - count)
    }
}
