import CallCore
import HTTPSending
import SignalingProtocol
import Support

/// The requests to Apple's push service (APNs), and the meaning of its responses.
enum APNs {
    /// The bound of a request body, in bytes.
    static let mostBytes = 4_096
    static let mostVoIPBytes = 5_120

    static func request(
        _ push: OutgoingPush, to token: String, _ settings: APNsSettings, shape: PushShape, token bearer: String,
        id: UInt64, now: Milliseconds, wall: WallTime
    ) -> HTTPRequest {
        let isVoIP = push.registration.key.platform == .apnsVoIP
        var headers = [
            (name: "authorization", value: "bearer \(bearer)"),
            (name: "apns-topic", value: settings.bundleID + (isVoIP ? ".voip" : "")),
            (name: "apns-push-type", value: isVoIP ? "voip" : "alert"),
            (name: "apns-priority", value: "10"),
            // Whole seconds, not later than the end of the ringing. Apple compares this time with its own clock.
            (name: "apns-expiration", value: String((wall + push.life(at: now)).seconds)),
            (name: "apns-id", value: push.uuid),
            (name: "content-type", value: "application/json"),
        ]
        if !isVoIP, let callID = push.content.callID { headers.append(("apns-collapse-id", callID.string)) }
        var request = HTTPRequest(
            id: id, url: "\(settings.endpoint.text)/3/device/\(percentEncoded(token))", headers: headers,
            body: body(push.content, isVoIP: isVoIP, shape: isVoIP ? shape.apnsVoIP : shape.apns))
        request.isToProvider = true
        return request
    }

    static func body(_ content: PushContent, isVoIP: Bool, shape: PushTemplate? = nil) -> [UInt8] {
        func written(_ content: PushContent, _ shape: FilledTemplate?) -> [UInt8] {
            JSONWriter.object { writer in
                writer.object("aps") { writer in if !isVoIP { writeAlert(content, &writer) } }
                writer.object("bellwire") { content.write(to: &$0) }
                for member in shape?.members ?? [] { writer.field(named: member.name, member.value.json[...]) }
            }
        }
        let fitting = content.trimmed(to: isVoIP ? mostVoIPBytes : mostBytes, shape: shape) { written($0, $1).count }
        return written(fitting.content, fitting.shape)
    }

    private static func writeAlert(_ content: PushContent, _ writer: inout JSONWriter) {
        writer.object("alert") { writer in
            writer.field("title", content.title)
            writer.field("body", content.body)
        }
        writer.field("sound", "default")
        writer.field("mutable-content", 1)
    }

    /// Returns the meaning of Apple's response.
    /// - Parameter registered: the latest time at which the registration can have been made. A token that ended before
    ///   this time is an earlier token, so the registration stays.
    static func meaning(of response: HTTPAnswer.Response, registered: WallTime) -> ProviderAnswer {
        let json = (try? JSONParser.parse(response.body))?.object
        let reason = safeReason(json?["reason"]?.string)
        if response.status == 410 {
            let ended = json?["timestamp"]?.integer
            return ProviderAnswer(
                kind: ended.map { WallTime(milliseconds: $0) > registered } ?? false ? .gone : .refused, reason: reason)
        }
        return ProviderAnswer(kind: ProviderAnswer.kind(response.status), reason: reason)
    }
}
