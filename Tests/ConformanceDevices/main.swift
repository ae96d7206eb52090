// Devices of the conformance suite that are the Swift SDK, many of them in one process. Orders come in and reports go
// out as lines of JSON; conformance/client/machines.py is the other end. The argument names the transport: `own` or
// `mosquitto`.
import Foundation

guard let transport = CommandLine.arguments.dropFirst().first.flatMap(TransportKind.init(rawValue:)) else {
    fatalError("usage: conformance-devices own|mosquitto")
}
let devices = Devices(transport: transport)
while let line = readLine() {
    do {
        devices.take(try Order(line))
    } catch {
        fatalError("not an order: \(line)")
    }
}
