import Delivery
import Glibc

/// `bellwire config`: prints an example of a settings file, or checks a settings file.
package enum ConfigCommand {
    private static let command = Command(
        name: "config", arguments: "",
        summary: """
            Prints a settings file with every setting, its default and a sentence, or checks a settings file: prints ok,
            or the first mistake with its place (exit status 64).
            """,
        options: [
            Option(switch: "example", "print an example"),
            Option("check", "FILE", default: "", "check this file"),
        ], positionals: 0...0)

    package static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let file = try arguments.file("check")
        switch (arguments.isSet("example"), file) {
        case (true, nil): print(ConfigExample.text, terminator: "")
        case (false, let file?):
            try check(file)
            print("ok")
        default: throw UsageError("bellwire config: expected --example or --check FILE")
        }
    }

    /// Checks the file for each command that the file is for: for `serve` always, for `gateway` and `dev` when the file
    /// has their object, and for `gateway` also when the file names `keys`. The environment does not count.
    private static func check(_ path: String) throws {
        let file: ConfigFile
        do throws(SettingsError) { file = try ConfigFile(path) } catch { throw UsageError(error.description) }
        try Arguments(ServeCommand.command, file: file).placing(ServeCommand.check)
        if file.names(GatewayCommand.command.name) || file.value("keys", of: GatewayCommand.command) != nil {
            try Arguments(GatewayCommand.command, file: file).placing(GatewayCommand.check)
        }
        if file.names(DevCommand.command.name) {
            try Arguments(DevCommand.command, file: file).placing(DevCommand.check)
        }
    }
}
