import CallCore
import MQTTClient

/// The brokers of a deployment on a command line: one address, or several with commas between them.
package enum BrokerList {
    static let form = "mqtt://[user[:password]@]host[:port] or mqtts://…, several with commas"

    /// Reads `--broker`. Throws when an entry is empty, malformed or repeated, and when there are too many.
    package static func addresses(_ arguments: Arguments) throws(UsageError) -> [BrokerAddress] {
        let text = arguments.text("broker") ?? ""
        // A single address may have a comma in its password.
        if let address = BrokerAddress(url: text) { return [address] }
        var addresses: [BrokerAddress] = []
        for entry in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let address = BrokerAddress(url: String(entry)) else {
                let what = entry.isEmpty ? "an empty entry" : "entry \(addresses.count + 1)"
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
