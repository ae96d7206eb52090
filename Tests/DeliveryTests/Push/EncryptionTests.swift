import SignalingProtocol
import Testing

@testable import Delivery
@testable import Tokens

struct EncryptionTests {
    private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(text.utf8)) }

    /// RFC 8291, appendix A.
    @Test func theExampleOfTheSpecificationComesOut() throws {
        let point = try bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8")
        let sender = try CryptographicKey(
            .es256,
            [
                .text("group", "P-256"), .bytes("pub", point),
                .number("priv", try bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")),
            ], isPrivate: true)
        let encrypted = try WebPushEncryption.encrypt(
            Array("When I grow up, I want to be a watermelon".utf8),
            to: try bytes(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
            secret: try bytes("BTBZMqHH6r4Tts7J_aSIgg"), from: sender, salt: try bytes("DGv6ra1nlYgDCS1FRnbzlw"))
        #expect(
            Base64URL.encode(encrypted)
                == "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w"
                + "EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
    }

    @Test func eachMessageHasItsOwnKeyAndSalt() throws {
        let key = try #require(Keys.browser.publicPoint)
        let one = try WebPushEncryption.encrypt([1, 2, 3], to: key, secret: Keys.auth)
        let two = try WebPushEncryption.encrypt([1, 2, 3], to: key, secret: Keys.auth)
        #expect(one.count == two.count && one.prefix(16) != two.prefix(16) && one[21..<86] != two[21..<86])
        for body in [one, two] {
            #expect(WebPushReceiver.opened(body, by: Keys.browser, secret: Keys.auth) == [1, 2, 3])
        }
    }

    @Test func asMuchAsFitsIntoABody() throws {
        let key = try #require(Keys.browser.publicPoint)
        #expect(WebPushEncryption.mostBytes == 3_993)
        let most = [UInt8](repeating: 0, count: 3_993)
        #expect(try WebPushEncryption.encrypt(most, to: key, secret: Keys.auth).count == 4_096)
        #expect(throws: TokenError.self) { try WebPushEncryption.encrypt(most + [0], to: key, secret: Keys.auth) }
    }

    @Test func aKeyThatIsNoPointOfTheCurveIsRefused() throws {
        var key = try #require(Keys.browser.publicPoint)
        key[64] ^= 1
        #expect(throws: TokenError.self) { try WebPushEncryption.encrypt([1], to: key, secret: Keys.auth) }
        #expect(throws: TokenError.self) {
            try WebPushEncryption.encrypt([1], to: [4] + [UInt8](repeating: 0, count: 64), secret: Keys.auth)
        }
    }

    // MARK: Keys in files

    @Test(arguments: [SignatureAlgorithm.es256, .rs256])
    func aKeyIsReadAsItWasWritten(_ algorithm: SignatureAlgorithm) throws {
        let key = try CryptographicKey.generate(algorithm)
        let pem = try key.pem()
        #expect(text(pem).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        let read = try CryptographicKey(algorithm, pem: pem)
        #expect(read.isSame(as: key))
        #expect(key.isValid(try read.sign([1, 2, 3]), of: [1, 2, 3]))
    }

    @Test func aKeyOfAnotherKindIsRefused() throws {
        let (ec, rsa) = (try CryptographicKey.generate(.es256).pem(), try CryptographicKey.generate(.rs256).pem())
        func reason(_ algorithm: SignatureAlgorithm, _ pem: [UInt8]) -> String? {
            do throws(TokenError) {
                _ = try CryptographicKey(algorithm, pem: pem)
                return nil
            } catch {
                return error.description
            }
        }
        #expect(reason(.es256, rsa) == "not a key of the curve P-256")
        #expect(reason(.rs256, ec) == "not a key of RSA")
        let none = "no private key in PEM that is not encrypted"
        #expect(reason(.es256, []) == none)
        #expect(reason(.es256, Array("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".utf8)) == none)
        #expect(reason(.es256, Array(encrypted.utf8)) == none)
        #expect(reason(.es256, Array(p384.utf8)) == "not a key of the curve P-256")
    }

    @Test func bothSidesHaveTheSameSecret() throws {
        let (one, other) = (try CryptographicKey.generate(.es256), try CryptographicKey.generate(.es256))
        let secret = try one.sharedSecret(with: try #require(other.publicPoint))
        #expect(try other.sharedSecret(with: try #require(one.publicPoint)) == secret)
        #expect(secret.count == 32)
    }
}

/// A private key whose password is not empty.
private let encrypted = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgwj12zRlt0QgICCAAw
    DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAIaFTmBF+Wh+O1rlZfCd1IEgZC3
    ARnXzF++a3+xYjK6jqRTJ7aVY+xs5Hd5T9Yo92W18DfSP8cRAbdyzVskvTB/+PkH
    ocUQMMjIY1e53Y4v+2DIyfooSbNR6C8hBzRmKInWVHCqT2brVd5hx/PjMYkIN/+b
    e8pwFIeyO35JMRiHMf2kaWkz3SFbTen7a0RF9MNwek4x54NXulCsSC06bEUM/sk=
    -----END ENCRYPTED PRIVATE KEY-----
    """

private let p384 = """
    -----BEGIN PRIVATE KEY-----
    MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAfhgfKjiLK3s7eCw2e
    Lg4WK+iTuteA57ACz67+b/Zba+701KpHMHIlBnJ6N1fItj6hZANiAAQ6FfYGGgwR
    4b7p0GTYwQrlm5+65hgIgHjrA14wRuXO3w10P8jQzOh92pJ6U3F5P/Hzld0zJq2+
    tFdHY4mUDKQZHN2SfVdORHrLh9zE5ufzGx17pyNk22ydvNZngKWxfm4=
    -----END PRIVATE KEY-----
    """
