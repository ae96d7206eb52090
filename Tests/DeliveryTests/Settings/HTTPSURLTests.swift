import Delivery
import Testing

@Suite struct HTTPSURLTests {
    @Test(arguments: [
        ("https://example.com", "example.com", 443, "/"),
        ("HTTPS://example.com:8443/a/b?c=d/e", "example.com", 8443, "/a/b?c=d/e"),
        ("https://example.com?a=b", "example.com", 443, "/?a=b"),
        ("https://10.0.0.7/a%20b", "10.0.0.7", 443, "/a%20b"),
        ("https://[2001:db8::1]:444/", "2001:db8::1", 444, "/"),
        ("https://example.com/a@b:c", "example.com", 443, "/a@b:c"),
    ])
    func itsPartsAreRead(_ text: String, _ host: String, _ port: Int, _ target: String) throws {
        let url = try HTTPSURL(text)
        #expect(url.text == text)
        #expect(url.host == host && url.port == port && url.target == target)
    }

    @Test(arguments: [
        ("http://example.com", "expected a URL that begins with https://"),
        ("example.com", "expected a URL that begins with https://"),
        ("", "expected a URL that begins with https://"),
        ("https://user:secret@example.com/", "user and password have no place in this URL: requests are signed"),
        ("https://example.com/#a", "the URL of a request has no fragment (#)"),
        ("https://example.com/a b", "a character that must be percent-encoded in a URL"),
        ("https://exämple.com/", "a character that must be percent-encoded in a URL"),
        ("https:///a", "expected https://, a host, and perhaps a port and a path"),
        ("https://example.com:0/", "expected https://, a host, and perhaps a port and a path"),
        ("https://example.com:65536/", "expected https://, a host, and perhaps a port and a path"),
        ("https://[example]/", "expected https://, a host, and perhaps a port and a path"),
        ("https://[::1%25lo]/", "expected https://, a host, and perhaps a port and a path"),
        ("https://a%2eb/", "expected https://, a host, and perhaps a port and a path"),
        ("https://example.com/" + String(repeating: "a", count: 2048), "longer than 2048 bytes"),
    ])
    func anythingElseIsRefused(_ text: String, _ reason: String) {
        #expect(throws: SettingsError(reason)) { try HTTPSURL(text) }
    }
}
