import CallCore
import Support
import Testing

@testable import Delivery

@Suite struct BodyAndSignatureTests {
    private let event = WebhookEvent(
        type: .messageDelivered, id: "m-1~delivered~Ym9i", time: 1_790_000_000_007, data: bytes(#"{"to":"bob"}"#))

    @Test func theStandardBodyHasTypeTimeAndData() {
        let body = WebhookBody(event, format: .standard)
        #expect(body.contentType == "application/json")
        #expect(
            text(body.bytes)
                == #"{"type":"message.delivered","timestamp":"2026-09-21T14:13:20.007Z","data":{"to":"bob"}}"#)
    }

    @Test func aCloudEventHasTheAttributesOfItsSpecification() {
        let body = WebhookBody(event, format: .cloudEvents)
        #expect(body.contentType == "application/cloudevents+json")
        let head = #"{"specversion":"1.0","id":"m-1~delivered~Ym9i","source":"bellwire","type":"message.delivered""#
        let rest = #","time":"2026-09-21T14:13:20.007Z","datacontenttype":"application/json","data":{"to":"bob"}}"#
        #expect(text(body.bytes) == head + rest)
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (-1000, "1969-12-31T23:59:59.000Z"),
            (1_709_164_800_010, "2024-02-29T00:00:00.010Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] as [(Milliseconds, String)])
    func aTimeIsRFC3339(_ moment: Milliseconds, _ expected: String) { #expect(timestamp(moment) == expected) }

    @Test func theSignatureIsThatOfTheSpecification() throws {
        let signature = try WebhookSignature(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: bytes(#"{"test": 2432232314}"#),
            secrets: [WebhookSecret(exampleSecret)], at: WallTime(milliseconds: 1_614_265_330_999))
        #expect(signature.signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        #expect(signature.headers.map(\.name) == ["webhook-id", "webhook-timestamp", "webhook-signature"])
        #expect(signature.headers[1].value == "1614265330")
    }

    @Test func twoSecretsMakeTwoSignatures() throws {
        let other = try WebhookSecret("whsec_" + Base64.encode(Array(0..<32)))
        func signature(_ secrets: [WebhookSecret]) throws -> String {
            try WebhookSignature(id: "a", body: [1], secrets: secrets, at: WallTime(milliseconds: start)).signature
        }
        let example = try WebhookSecret(exampleSecret)
        let both = try signature([example, other])
        #expect(both == "\(try signature([example])) \(try signature([other]))")
        #expect(both.split(separator: " ").count == 2)
    }

    @Test(arguments: 0..<70)
    func base64ReadsWhatItWrote(_ count: Int) throws {
        let value = (0..<count).map { _ in UInt8.random(in: 0...255) }
        let written = Base64.encode(value)
        #expect(written.utf8.count % 4 == 0)
        #expect(Base64.decode(bytes(written)) == value)
    }

    @Test(arguments: ["A", "AA", "AAA", "A===", "====", "AA-_", "AB==", "AAB=", "AA=A", "AAAA=", "AA==AAAA", "AA A"])
    func whatIsNotBase64IsRefused(_ text: String) { #expect(Base64.decode(bytes(text)) == nil) }
}
