import BellwireClient
import Glibc
import MQTTClient
import SignalingProtocol

/// `bellwire trace`: why a phone did or did not ring (docs/protocol.md, section 6).
enum TraceCommand {
    static let command = Command(
        name: "trace", arguments: "CALLID",
        summary: """
            Prints the timeline of a call, as one of its members may see it: each request, change, message and ack with its
            time, the time since the step before, and the replica that did it.
            """,
        options: [
            Option("as", "USER", "a member of the call; required"),
            Option(
                "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
                "mqtt://[user[:password]@]host[:port] or mqtts://"),
            Option("topic-root", "TOPIC", default: Topics.defaultRoot, "the root of all topics"),
            Option("within", "DURATION", default: "10s", "how long to try"),
            Option(switch: "json", "print the response as it came"),
        ], positionals: 1...1)

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        guard let callID = CallID(arguments.positionals[0]) else {
            throw UsageError("bellwire trace: \(arguments.positionals[0]) is not a call id")
        }
        var question = Question(
            user: try arguments.required("as", "a user id of 1 to 64 bytes", UserID.init),
            broker: try arguments.required("broker", "mqtt://[user[:password]@]host[:port]", BrokerAddress.init(url:)),
            topics: try arguments.required("topic-root", "a topic without wildcards", Topics.init(root:)))
        let limit = monotonicMilliseconds() + (try arguments.milliseconds("within", in: 100...600_000))
        let payload = try question.ask(.trace(.init(callID: callID)), until: limit)
        guard case .response(let response)? = DownMessage.decode(payload) else {
            throw QuestionError(description: "the response cannot be read")
        }
        switch response.outcome {
        case .failure(let error): throw QuestionError(description: "\(error.message) (\(error.code))")
        case .answer: throw QuestionError(description: "the response is not one to this request")
        case .success(let success):
            if arguments.isSet("json") {
                writeOutput(String(decoding: payload, as: UTF8.self))
            } else {
                writeOutput(TimelineText(success).text)
            }
        }
    }
}

struct QuestionError: Error, CustomStringConvertible { let description: String }

/// One request from a device that only asks: it publishes no presence and listens to its own topic alone, so that it is
/// neither counted online nor rung, and acks nothing in the user's name.
struct Question {
    let user: UserID
    let broker: BrokerAddress
    let topics: Topics
    private let device = DeviceID("asks-" + randomHex(bytes: 6))!

    init(user: UserID, broker: BrokerAddress, topics: Topics) {
        self.user = user
        self.broker = broker
        self.topics = topics
    }

    /// The payload of the response. The request is sent again every second until it comes or `limit` has passed.
    mutating func ask(_ body: Request.Body, until limit: Int64) throws -> [UInt8] {
        let address = DeviceAddress(userID: user, deviceID: device)
        var broker = broker
        if broker.username == nil { broker.username = Topics.encode(user) }
        let connection = try MQTTConnection(.init(broker: broker, clientID: Topics.clientID(address)))
        try connection.connect()
        let request = Request(id: RequestID(randomHex(bytes: 8))!, body: body)
        var subscription: Int32?
        var nextSend = Int64.max
        while monotonicMilliseconds() < limit {
            if subscription == nil, connection.state == .connected {
                subscription = try connection.subscribe(topics.down(address), qos: .atLeastOnce)
            }
            if let subscription, connection.acknowledged.contains(subscription) { nextSend = 0 }
            if monotonicMilliseconds() >= nextSend {
                let message = UpMessage.request(request).encoded()
                try connection.publish(MQTTMessage(topic: topics.up(address), payload: message))
                nextSend = monotonicMilliseconds() + 1_000
            }
            for message in try connection.poll(milliseconds: 100) {
                if case .response(let response)? = DownMessage.decode(message.payload), response.id == request.id {
                    connection.disconnect()
                    return message.payload
                }
            }
        }
        throw QuestionError(description: "\(broker): the service did not answer in time")
    }
}
