import CallCore
import CallStore
import Delivery

/// The flags of webhooks and pushes: each kind of delivery has a settings file, and both obey `--deliver`.
enum DeliveryOptions {
    static let push = Option("push", "FILE", default: "", "the settings of pushes to sleeping phones (docs/push.md)")

    static let media = Option("media", "FILE", default: "", "the media servers of calls (docs/media.md)")

    static let all = [
        Option("webhooks", "FILE", default: "", "the endpoints of webhooks (docs/webhooks.md)"),
        Option(
            "deliver", "true|false", default: "true",
            "send webhooks and pushes, and close rooms; false: leave these to other processes"
        ),
        push, media,
    ]

    /// Throws the first mistake of the flags and their settings files.
    static func check(_ arguments: Arguments) throws(UsageError) {
        _ = try delivers(arguments)
        let command = arguments.command.title
        if let file = try arguments.file("webhooks") { _ = try WebhookDelivery.settings(file, command) }
        if let file = try arguments.file("push") { _ = try PushDelivery.settings(file, command) }
        if let file = try arguments.file("media") { _ = try MediaDelivery.settings(file, command) }
    }

    static func delivers(_ arguments: Arguments) throws(UsageError) -> Bool {
        try arguments.required("deliver", "true or false") { ["true": true, "false": false][$0] }
    }

    /// Returns `--deliver`, as read from the object of a settings file that has `option`.
    static func delivers(_ arguments: Arguments, besides option: String) throws(UsageError) -> Bool {
        try delivers(arguments.narrowed(to: option))
    }

    /// Reads a settings file. Throws on a mistake in the file, so that the process does not start.
    /// - Parameter flag: the flag that names the file, with its dashes.
    static func settings<Settings>(
        _ flag: String, _ command: String, _ read: () throws(SettingsError) -> Settings
    ) throws(UsageError) -> Settings {
        do throws(SettingsError) {
            return try read()
        } catch {
            throw UsageError("\(command): \(flag) \(error.description)")
        }
    }
}
