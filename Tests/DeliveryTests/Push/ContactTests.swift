import Testing

@testable import Delivery

/// The contacts to whom push services may turn (RFC 8292, section 2.1).
@Suite struct ContactTests {
    @Test(arguments: [
        "mailto:ops@localhost", "mailto:ops@printer.local", "mailto:ops@example", "mailto:ops@10.0.0.1", "mailto:ops",
        "mailto:@example.com", "mailto:a@b@example.com", "mailto:ops@.com", "mailto:ops@example.com.",
        "https://localhost/", "https://printer.local/contact", "https://example", "https://10.0.0.1/",
        "https:example.com",
    ])
    func aContactThatAppleRefusesIsRefused(_ subject: String) { #expect(!WebPushSettings.isReachable(subject)) }

    @Test(arguments: [
        "mailto:ops@example.com", "mailto:a.b+c@mail.example.co.uk", "https://example.com",
        "https://example.com:8443/contact",
        "https://EXAMPLE.com/?a=b", "mailto:ops@example.com?subject=push", "mailto:ops@xn--bcher-kva.example",
    ])
    func otherContactsAreTaken(_ subject: String) { #expect(WebPushSettings.isReachable(subject)) }
}
