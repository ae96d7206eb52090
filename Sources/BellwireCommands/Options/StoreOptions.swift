import CallCore
import CallStore
import Glibc
import MQTTClient
import RedisStore
import SQLiteStore
import SignalingProtocol

/// The flags that name the store, with its settings.
enum StoreOptions {
    static let all = [
        Option(
            "store", "STORE", default: "sqlite:bellwire.db", isSecret: true,
            StoreAddress.forms),
        Option("sqlite-synchronous", "MODE", default: "normal", "normal, or full: a power cut loses no answer"),
        redisPasswordFile,
        redisCA,
        redisPrefix,
        redisWaitReplicas,
        SettingsOptions.takeOverStore,
    ]

    /// The flags for a process that uses the coordinators' store.
    static let visiting = [
        Option(
            "store", "STORE", default: "sqlite:bellwire.db", isSecret: true,
            "sqlite:PATH, redis://…, redis-sentinel://… or redis-cluster://…: the coordinators' store"),
        redisPasswordFile, redisCA, redisPrefix, redisWaitReplicas,
    ]

    /// The flags for a command that visits the store for a moment.
    static let visitedByCommand = [
        Option(
            "store", "STORE", isSecret: true,
            "sqlite:PATH, redis://…, redis-sentinel://… or redis-cluster://…; required"),
        redisPasswordFile, redisCA, redisPrefix,
    ]

    /// The flags for a command that may examine the store.
    static let examined = [
        Option("store", "STORE", default: "", isSecret: true, "the store to try, in a form that serve takes"),
        redisPasswordFile, redisCA, redisPrefix,
    ]

    private static let redisPasswordFile = Option(
        "redis-password-file", "FILE", default: "", "a file with the password of Redis, if not in --store")
    private static let redisCA = Option(
        "redis-ca", "FILE", default: "", "certificate authorities to trust with rediss://… addresses")
    private static let redisWaitReplicas = Option(
        "redis-wait-replicas", "N", default: "0", "how many Redis replicas must have a write before its answer")
    private static let redisPrefix = Option(
        "redis-prefix", "NAME", default: "bellwire", "the prefix of all Redis keys")

    /// Whether the text may name a group, a coordinator or a Redis prefix: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    static func isName(_ text: String) -> Bool { DeviceID(text) != nil && !text.contains("~") }

    /// Opens the store. `isVisited`: whether the store is served by another process.
    static func open(
        _ arguments: Arguments, _ settings: ServiceSettings, isVisited: Bool = false
    ) throws -> any CallStore & OutboxStore & AdminStore {
        let (address, options) = try address(arguments, settings, isVisited: isVisited)
        return try address.open(options, settings)
    }

    /// Returns the address of the store, and the store's options.
    static func address(
        _ arguments: Arguments, _ settings: ServiceSettings, isVisited: Bool = false
    ) throws(UsageError) -> (StoreAddress, StoreAddress.Options) {
        var options = StoreAddress.Options()
        options.isVisited = isVisited
        if !isVisited {
            options.synchronous = try arguments.required(
                "sqlite-synchronous", "normal or full", SQLiteCallStore.Synchronous.init(rawValue:))
            options.historyPerUser = try arguments.integer("history-per-user", in: SettingsOptions.historyPerUser)
        }
        options.waitReplicas = try arguments.integer("redis-wait-replicas", in: 0...10)
        options.redisPrefix = try prefix(arguments)
        options.stamp =
            isVisited
            ? DeploymentStamp(topicRoot: settings.topics.root, takesOver: false)
            : SettingsOptions.stamp(arguments, settings)
        var address = try required(arguments, StoreAddress.forms)
        try readSecrets(arguments, into: &address)
        return (address, options)
    }

    /// Opens a store that other processes serve at the same time, for a command that does not know their settings.
    /// Unlike `open`, this function creates no new file.
    static func visited(_ arguments: Arguments) throws -> any CallStore & OutboxStore & AdminStore {
        let command = "\(arguments.command.title)"
        var address = try required(arguments, "sqlite:PATH, redis://…, redis-sentinel://… or redis-cluster://…")
        var options = StoreAddress.Options()
        options.isVisited = true
        options.redisPrefix = try prefix(arguments)
        if case .sqlite(let path) = address, access(path, R_OK | W_OK) != 0 {
            throw UsageError("\(command): --store sqlite:\(path): \(String(cString: strerror(errno)))")
        }
        try readSecrets(arguments, into: &address)
        return try address.open(options)
    }

    /// Returns the address and the Redis prefix of a store that a command copies as a whole.
    static func backedUp(_ arguments: Arguments) throws(UsageError) -> (StoreAddress, prefix: String) {
        var address = try required(arguments, "sqlite:PATH, redis://…, redis-sentinel://… or redis-cluster://…")
        try readSecrets(arguments, into: &address)
        return (address, try prefix(arguments))
    }

    /// Opens the store of a command with the flags `examined`; nil without `--store`.
    static func openForExamination(_ arguments: Arguments) throws -> (any CallStore)? {
        guard let text = arguments.text("store"), !text.isEmpty else { return nil }
        return try visited(arguments)
    }

    /// Returns the path of a SQLite store; nil for other stores and without a store.
    static func sqlitePath(_ arguments: Arguments) -> String? {
        guard let text = arguments.text("store"), case .sqlite(let path)? = StoreAddress(text) else { return nil }
        return path
    }

    private static func required(_ arguments: Arguments, _ forms: String) throws(UsageError) -> StoreAddress {
        if let mistake = arguments.text("store").flatMap(RedisAddress.mistake) {
            throw UsageError("\(arguments.command.title): --store: \(mistake)")
        }
        return try arguments.required("store", forms, StoreAddress.init)
    }

    private static func prefix(_ arguments: Arguments) throws(UsageError) -> String {
        try arguments.required("redis-prefix", "1 to 64 of A-Z a-z 0-9 . _ -") { isName($0) ? $0 : nil }
    }

    /// Reads the password of Redis, and the authorities to trust.
    private static func readSecrets(_ arguments: Arguments, into address: inout StoreAddress) throws(UsageError) {
        let authorities = try arguments.file("redis-ca")
        let file = try arguments.file("redis-password-file")
        guard case .redis(var redis) = address else { return }
        redis.certificateAuthorityFile = authorities
        if let file {
            guard let password = readSecret(file) else {
                throw UsageError("\(arguments.command.title): --redis-password-file \(file): no password in it")
            }
            redis.password = password
        }
        address = .redis(redis)
    }
}

/// The address at which a process listens: `--http HOST:PORT`.
struct ListenAddress {
    let host: String
    let port: Int

    /// Returns nil when the option is not given.
    init?(_ arguments: Arguments, option: String = "http") throws(UsageError) {
        guard let text = arguments.text(option), !text.isEmpty else { return nil }
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let port = Int(text[text.index(after: colon)...]), (0...65535).contains(port)
        else { throw UsageError("\(arguments.command.title): --\(option) \(text): expected HOST:PORT") }
        let name = text[..<colon]
        // Removes the brackets of an IPv6 address such as `[::1]`.
        host = name.hasPrefix("[") && name.hasSuffix("]") ? String(name.dropFirst().dropLast()) : String(name)
        self.port = port
    }
}
