import Coordinator

/// The flags of the log.
enum LogOptions {
    static let level = Option("log-level", "LEVEL", default: "info", "debug, info, warning or error")
    static let format = Option("log-format", "FORMAT", default: "text", "text or json")

    static func read(_ arguments: Arguments) throws(UsageError) -> (level: Log.Level, format: Log.Format) {
        (
            try level(arguments),
            try arguments.required("log-format", "text or json", Log.Format.init(rawValue:))
        )
    }

    static func level(_ arguments: Arguments) throws(UsageError) -> Log.Level {
        try arguments.required("log-level", "debug, info, warning or error", Log.Level.init(rawValue:))
    }
}
