import BellwireClientCore
import Basics

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

extension DeviceID {
    /// The device id of this installation: made once, at random, and kept in `$XDG_DATA_HOME/bellwire/device`
    /// (`~/.local/share/bellwire/device`). Where no file can be kept, the id lasts as long as the process.
    ///
    /// The id belongs to this process while the process lives, since two connections of the same device would displace
    /// each other. A second program that runs at the same time with the same home directory is a second device. The
    /// second id is kept in `device-2` beside the first file, and any later program that is the second at its time gets
    /// this id again. There are 16 ids in all, in the files up to `device-16`. A seventeenth program gets an id of its
    /// own that is not kept. All clients of a process have the same id.
    public static var ofThisInstallation: DeviceID {
        (try? InstallationDevice.ofThisProcess()) ?? InstallationDevice.ofSurplusProcess
    }
}

/// The directory in which an installation keeps its device ids.
struct InstallationDevice: Sendable {
    /// The bound on programs that run at the same time with a kept device id. The bound is below 20, because the
    /// service keeps the push registrations of at most 20 devices of a user.
    static let programs = 16

    /// The directory; nil when there is no home directory.
    let directory: String?

    /// A device id that no other process takes while this object lives: the kernel releases the lock when the process
    /// ends, in any way.
    final class Claim: Sendable {
        let id: DeviceID
        /// The locked file; nil where no file could be kept.
        private let file: Int32?

        init(_ id: DeviceID, _ file: Int32?) { (self.id, self.file) = (id, file) }

        deinit { if let file { close(file) } }
    }

    private enum Attempt {
        case claimed(Claim)
        /// Another program has the device id.
        case taken
        /// There is no such file, and the file cannot be made; or the file holds no device id.
        case unusable
    }

    private static let claimed = Mutex<Claim?>(nil)
    static let ofSurplusProcess = random()

    /// - Throws: `badRequest` when all 16 device ids are in use.
    static func ofThisProcess() throws(SignalingError) -> DeviceID {
        try claimed.withLock { claimed throws(SignalingError) in
            if let claimed { return claimed.id }
            let new = try InstallationDevice(directory: standardDirectory).claim()
            claimed = new
            return new.id
        }
    }

    private static var standardDirectory: String? {
        // An app's container takes files in a few directories alone.
        #if canImport(Darwin)
            if let home = text("HOME") { return home + "/Library/Application Support/bellwire" }
        #endif
        if let data = text("XDG_DATA_HOME") { return data + "/bellwire" }
        return text("HOME").map { $0 + "/.local/share/bellwire" }
    }

    private static func text(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }

    private static func random() -> DeviceID { DeviceID(randomToken())! }

    /// Claims the first device id that no other program has.
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
        let message = "\(Self.programs) programs use the device ids in \(directory): end a program, or give an id"
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

    /// Opens a file with a device id. Programs that this process starts do not inherit the lock.
    private func openKept(_ path: String) -> Int32? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        return file < 0 ? nil : file
    }

    /// Makes a file with a new device id, and opens the file. When several processes make the file at once, the first
    /// file stays.
    private func make(_ directory: String, _ name: String) -> Int32? {
        let new = Self.random()
        let draft = "\(directory)/device.\(new)"
        guard write(new, draft) else { return nil }
        defer { unlink(draft) }
        _ = link(draft, "\(directory)/\(name)")
        return openKept("\(directory)/\(name)")
    }

    /// Locks the file; returns false when another program has the lock. On a file system without locks all programs use
    /// the same device id.
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
