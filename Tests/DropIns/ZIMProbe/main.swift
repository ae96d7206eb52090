import DropInProbe
import Foundation

// With `--demo` commands go through the demo's `ZIMService`.
let commands: [String: (Probe.Command) -> Void] =
    CommandLine.arguments.contains("--demo") ? DemoApp.shared.commands : ZIMApp.shared.commands

let probe = Probe { command in
    guard let act = commands[command.text("do")] else { fatalError("unknown command \(command)") }
    act(command)
}
probe.run()
