import TemporaryFiles
import Testing

@testable import Delivery

/// The URL and the headers with which spans are sent.
@Suite struct OTLPSettingsTests {
    @Test(arguments: [
        ("http://jaeger:4318", "http://jaeger:4318/v1/traces"), ("https://a/", "https://a/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"), ("https://a/otlp/v1/traces", "https://a/otlp/v1/traces"),
    ])
    func aURLWithoutAPathGetsOne(_ text: String, _ url: String) throws {
        #expect(try OTLPSettings(url: text).url == url)
    }

    @Test(arguments: [
        "", "jaeger:4318", "grpc://a:4317", "http://", "http://user:password@a", "http://a/?key=1", "http://a/#x",
        "http://a b",
        "http://a/" + String(repeating: "x", count: 3_000),
    ])
    func otherTextsAreRefused(_ text: String) {
        #expect(throws: SettingsError.self) { try OTLPSettings(url: text) }
    }

    @Test func headersStandInLines() throws {
        let headers = try OTLPSettings.headers(
            Array("# a token\nAuthorization: Bearer a:b \r\n\nx-scope:\ttenant\n".utf8))
        #expect(
            headers.map(\.name) == ["Authorization", "x-scope"] && headers.map(\.value) == ["Bearer a:b", "tenant"])
    }

    @Test(arguments: [
        "topsecret", "a b: topsecret", "Content-Type: topsecret", "host: topsecret", "a: topsecret\u{1}", ": topsecret",
        String(repeating: "a: topsecret\n", count: 17),
    ])
    func mistakesAreToldWithoutTheValue(_ text: String) {
        #expect { try OTLPSettings.headers(Array(text.utf8)) } throws: { error in
            !"\(error)".contains("topsecret") && error is SettingsError
        }
    }
}
