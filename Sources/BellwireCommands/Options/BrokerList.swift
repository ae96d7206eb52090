import CallCore
import MQTTClient

/// The brokers of a deployment on a command line: one address, or several with commas between them.
package enum BrokerList {
    static let form = "mqtt://[user[:password]@]host[:port] or mqtts://…, several with commas"

    /// Reads `--broker`. Throws when an entry is empty, malformed or repeated, and when there are too many.
    package static func addresses(_ arguments: Arguments) throws(UsageError) -> [BrokerAddress] {
        let text = arguments.text("broker") ?? ""
        var addresses: [BrokerAddress] = []
        for (place, address) in BrokerAddress.list(text).enumerated() {
            guard let address else {
                let isEmpty = text.split(separator: ",", omittingEmptySubsequences: false)[place].isEmpty
                let what = isEmpty ? "an empty entry" : "entry \(place + 1)"
                throw UsageError("\(arguments.command.title): --broker: \(what): expected \(form)")
            }
            guard !addresses.contains(where: { $0.name == address.name }) else {
                throw UsageError("\(arguments.command.title): --broker: \(address.name) is named twice")
            }
            addresses.append(address)
        }
        guard addresses.count <= BrokerSet.mostBrokers else {
            throw UsageError("\(arguments.command.title): --broker: at most \(BrokerSet.mostBrokers) brokers")
        }
        return addresses
    }
}
