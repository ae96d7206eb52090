import TemporaryFiles
import Testing

@testable import Delivery

private func refusal(_ file: String) throws -> String? {
    let directory = try TemporaryDirectory()
    let path = try directory.write("s", file)
    do throws(SettingsError) {
        _ = try WebhookSecret.read(file: path)
        return nil
    } catch {
        return error.description.replacing(path, with: "s")
    }
}

@Suite struct SecretTests {
    private static let form = "whsec_ and 24 to 64 bytes in base 64"

    @Test(arguments: [
        ("", "s: no secret in it"),
        ("\n\n", "s: no secret in it"),
        ("\(exampleSecret)\n\(exampleSecret)\n\(exampleSecret)", "s: more than 2 secrets, one a line"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "s: secret 1: a secret begins with \(form)"),
        ("\(exampleSecret)\nwhsec_Mf*Q", "s: secret 2: the text after whsec_ is not base 64"),
        ("whsec_MfKQ", "s: secret 1: the secret has 3 bytes; expected \(form)"),
        ("whsec_\(Base64.encode(Array(0..<23)))", "s: secret 1: the secret has 23 bytes; expected \(form)"),
        ("whsec_\(Base64.encode(Array(0..<65)))", "s: secret 1: the secret has 65 bytes; expected \(form)"),
        (String(repeating: " ", count: 4097), "s: over 4096 bytes"),
    ])
    func whatIsNoSecretIsRefused(_ file: String, _ expected: String) throws { #expect(try refusal(file) == expected) }

    @Test func aFileThatCannotBeReadIsNamedWithItsPlace() throws {
        let directory = try TemporaryDirectory()
        let settings = #"{"endpoints":[{"name":"a","url":"https://a","events":["*"],"secretFile":"no.whsec"}]}"#
        let path = try directory.write("w.json", settings)
        let expected = "\(path): endpoints[0].secretFile: \(directory.path)/no.whsec: No such file or directory"
        #expect(throws: SettingsError(expected)) { try WebhookSettings(path: path) }
    }

    @Test func aSecretInTheSettingsIsRefusedWithoutBeingShown() throws {
        let directory = try TemporaryDirectory()
        let settings =
            #"{"endpoints":[{"name":"a","url":"https://a","events":["*"],"secretFile":"\#(exampleSecret)"}]}"#
        let path = try directory.write("w.json", settings)
        let expected =
            "\(path): endpoints[0].secretFile: expected the path of a file that holds the secret, not the secret itself"
        #expect(throws: SettingsError(expected)) { try WebhookSettings(path: path) }
    }

    @Test func noErrorShowsASecret() throws {
        let directory = try TemporaryDirectory()
        for damaged in ["MfKQ9r8GKYqrTwjU", "whsec_MfKQ9r8GKYqrTwjU", "whsec_MfKQ9r8GKYqrTwjU*"] {
            let path = try directory.write("s", damaged)
            let error = #expect(throws: SettingsError.self) { try WebhookSecret.read(file: path) }
            #expect(error?.description.contains("MfKQ") == false)
        }
    }

    @Test func nothingThatIsPrintedOrDumpedShowsASecret() throws {
        let secret = Array(UInt8(100)..<132)
        let endpoint = WebhookEndpoint(
            name: "app", url: try HTTPSURL("https://example.com/token"),
            secrets: [try WebhookSecret("whsec_" + Base64.encode(secret))], events: try #require(EventPatterns(["*"])))
        var shown = "\(endpoint) \(String(reflecting: endpoint)) \(endpoint.secrets)"
        dump(endpoint, to: &shown)
        #expect(shown.contains("a webhook secret"))
        #expect(!shown.contains("101") && !shown.contains(String(Base64.encode(secret).prefix(8))))
    }
}
