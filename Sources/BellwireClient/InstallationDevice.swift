import BellwireClientCore

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
    public static let ofThisInstallation = InstallationDevice(directory: InstallationDevice.standardDirectory).id
}

/// Where an installation keeps its device id.
struct InstallationDevice {
    /// Nil when there is no home.
    let directory: String?

    static var standardDirectory: String? {
        if let data = text("XDG_DATA_HOME") { return data + "/bellwire" }
        return text("HOME").map { $0 + "/.local/share/bellwire" }
    }

    private static func text(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }

    /// Of several processes that make it at once one wins.
    var id: DeviceID {
        let new = DeviceID(randomToken())!
        guard let directory else { return new }
        if let kept = read(directory) { return kept }
        makeDirectories(directory)
        let draft = "\(directory)/device.\(new)"
        guard write(new, draft) else { return new }
        defer { unlink(draft) }
        if link(draft, "\(directory)/device") == 0 { return new }
        return read(directory) ?? new
    }

    private func read(_ directory: String) -> DeviceID? {
        guard let file = fopen("\(directory)/device", "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 65)
        let count = fread(&bytes, 1, bytes.count, file)
        return DeviceID(String(decoding: bytes.prefix(count).prefix { $0 > UInt8(ascii: " ") }, as: UTF8.self))
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
        return bytes.withUnsafeBytes { Self.writeAll(descriptor, $0) }
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
