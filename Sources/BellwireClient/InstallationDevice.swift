import BellwireClientCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

extension DeviceID {
    /// The device id of this installation: made once, at random, and kept in `$XDG_DATA_HOME/bellwire/device`
    /// (`~/.local/share/bellwire/device`). Where no file can be kept it lasts as long as the process.
    ///
    /// It is this process's while the process lives: two connections of one device would push each other out. A second program of the same
    /// home directory is the second device, whose id is kept in `device-2` beside it for the next program that comes second, and so on, 16 in
    /// all. Of a process that is the seventeenth this is an id of its own, which is not kept. All clients of one process have the same id.
    public static var ofThisInstallation: DeviceID {
        (try? InstallationDevice.ofThisProcess()) ?? InstallationDevice.ofSurplusProcess
    }
}

/// Where an installation keeps its device ids.
struct InstallationDevice: Sendable {
    /// How many programs are devices at once. The service keeps registrations for pushes of 20 devices of a user.
    static let programs = 16

    /// Nil when there is no home.
    let directory: String?

    /// A device id that no other process takes while this lives: the kernel gives the lock back when the process ends, however it ends.
    final class Claim: Sendable {
        let id: DeviceID
        /// The locked file; nil where no file could be kept.
        private let file: Int32?

        init(_ id: DeviceID, _ file: Int32?) { (self.id, self.file) = (id, file) }

        deinit { if let file { close(file) } }
    }

    private enum Attempt {
        case claimed(Claim)
        /// Another program has it.
        case taken
        /// There is no such file, and none can be made; or it holds no device id.
        case unusable
    }

    private static let claimed = Mutex<Claim?>(nil)
    static let ofSurplusProcess = random()

    /// - Throws: `badRequest` when as many programs as may be have a device each.
    static func ofThisProcess() throws(SignalingError) -> DeviceID {
        try claimed.withLock { claimed throws(SignalingError) in
            if let claimed { return claimed.id }
            let new = try InstallationDevice(directory: standardDirectory).claim()
            claimed = new
            return new.id
        }
    }

    private static var standardDirectory: String? {
        if let data = text("XDG_DATA_HOME") { return data + "/bellwire" }
        return text("HOME").map { $0 + "/.local/share/bellwire" }
    }

    private static func text(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }

    private static func random() -> DeviceID { DeviceID(randomToken())! }

    /// The first device that no other program has.
    func claim() throws(SignalingError) -> Claim {
        guard let directory else { return Claim(Self.random(), nil) }
        makeDirectories(directory)
        var isFull = true
        for number in 1...Self.programs {
            switch attempt(directory, number == 1 ? "device" : "device-\(number)") {
            case .claimed(let claim): return claim
            case .taken: break
            case .unusable: isFull = false
            }
        }
        guard isFull else { return Claim(Self.random(), nil) }
        let message = "\(Self.programs) programs have one each already (\(directory)): end one, or give an id"
        throw SignalingError(.badRequest, "device: " + message)
    }

    private func attempt(_ directory: String, _ name: String) -> Attempt {
        guard let file = openKept("\(directory)/\(name)") ?? make(directory, name) else { return .unusable }
        guard lock(file) else {
            close(file)
            return .taken
        }
        guard let id = content(file) else {
            close(file)
            return .unusable
        }
        return .claimed(Claim(id, file))
    }

    /// The lock is not passed on to programs that this one starts.
    private func openKept(_ path: String) -> Int32? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        return file < 0 ? nil : file
    }

    /// Of several processes that make it at once one wins.
    private func make(_ directory: String, _ name: String) -> Int32? {
        let new = Self.random()
        let draft = "\(directory)/device.\(new)"
        guard write(new, draft) else { return nil }
        defer { unlink(draft) }
        _ = link(draft, "\(directory)/\(name)")
        return openKept("\(directory)/\(name)")
    }

    /// False: another program has it. A file system without locks has one device for all programs.
    private func lock(_ file: Int32) -> Bool {
        while flock(file, LOCK_EX | LOCK_NB) != 0 {
            if errno == EWOULDBLOCK { return false }
            if errno != EINTR { return true }
        }
        return true
    }

    private func content(_ file: Int32) -> DeviceID? {
        var bytes = [UInt8](repeating: 0, count: 65)
        let count = pread(file, &bytes, bytes.count, 0)
        return DeviceID(String(decoding: bytes.prefix(max(count, 0)).prefix { $0 > UInt8(ascii: " ") }, as: UTF8.self))
    }

    private func makeDirectories(_ directory: String) {
        var path = ""
        for part in directory.split(separator: "/") {
            path += "/\(part)"
            mkdir(path, 0o700)
        }
    }

    private func write(_ device: DeviceID, _ path: String) -> Bool {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let bytes = Array(device.string.utf8)
        guard bytes.withUnsafeBytes({ Self.writeAll(descriptor, $0) }) else {
            unlink(path)
            return false
        }
        return true
    }

    private static func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Bool {
        #if canImport(Glibc)
            Glibc.write(descriptor, bytes.baseAddress, bytes.count) == bytes.count
        #elseif canImport(Musl)
            Musl.write(descriptor, bytes.baseAddress, bytes.count) == bytes.count
        #else
            Darwin.write(descriptor, bytes.baseAddress, bytes.count) == bytes.count
        #endif
    }
}
