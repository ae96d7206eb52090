/// The example of a settings file, with every setting, made from the options of the commands.
enum ConfigExample {
    static var text: String {
        let commands = ConfigFile.commands
        var lines = [
            "// The settings of bellwire serve, gateway and dev: --config FILE, or BELLWIRE_CONFIG.",
            "// The command line wins over the environment, and the environment over this file.",
            "// Paths count from the folder of this file. \"include\" names another file, over which this file wins.",
            "{",
            "  // \"include\": \"common.json\",",
        ]
        let shared = sharedOptions(commands)
        for option in shared { lines += entry(option, indent: "  ") }
        for command in commands {
            lines.append("")
            lines.append("  // For bellwire \(command.name) alone.")
            lines.append("  \"\(command.name)\": {")
            let own = command.options.filter { option in
                option.name != ConfigFile.option.name && !shared.contains { $0.name == option.name }
            }
            for option in own { lines += entry(option, indent: "    ") }
            // A comma may stand behind the last member only where another member follows.
            closeLast(&lines)
            lines.append(command.name == commands.last?.name ? "  }" : "  },")
        }
        lines.append("}")
        return lines.joined(separator: "\n") + "\n"
    }

    /// The options that mean the same to every command that has them, and that several commands have.
    private static func sharedOptions(_ commands: [Command]) -> [Option] {
        var shared: [Option] = []
        for option in commands.flatMap(\.options) where option.name != ConfigFile.option.name {
            let same = commands.compactMap { command in command.options.first { $0.name == option.name } }
            guard same.count > 1, !shared.contains(where: { $0.name == option.name }),
                same.allSatisfy({ $0.standard == option.standard && ($0.help == option.help || $0.name == "store") })
            else { continue }
            shared.append(option)
        }
        return shared
    }

    private static func entry(_ option: Option, indent: String) -> [String] {
        let comment = "\(indent)// \(option.help)"
        guard let standard = option.placeholder == nil ? "false" : option.standard else {
            return [comment, "\(indent)// \"\(option.name)\": \"\(option.placeholder ?? "")\","]
        }
        let isPlain = Int(standard).map(String.init) == standard || ["true", "false"].contains(standard)
        return [comment, "\(indent)\"\(option.name)\": \(isPlain ? standard : "\"\(standard)\""),"]
    }

    private static func closeLast(_ lines: inout [String]) {
        guard let last = lines.lastIndex(where: { !$0.drop(while: { $0 == " " }).hasPrefix("//") }),
            lines[last].hasSuffix(",")
        else { return }
        lines[last].removeLast()
    }
}
