import SignalingProtocol
import Testing

@testable import Tokens

private let now: Int64 = 1_800_000_000_000

private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

private func token(_ user: String = "alice", lasts life: Int64 = 60_000) throws -> Token {
    Token(user: try #require(UserID(user)), expiresAt: now + life)
}

/// A token with any header and claims, signed by `key`.
private func forged(header: String, claims: String, by key: TokenKey) throws -> String {
    let message = Base64URL.encode(bytes(header)) + "." + Base64URL.encode(bytes(claims))
    return message + "." + Base64URL.encode(try key.key.sign(bytes(message)))
}

private func kind(_ body: () throws -> Void) -> TokenError.Kind? {
    do {
        try body()
        return nil
    } catch {
        return (error as? TokenError)?.kind
    }
}

@Suite struct TokenTests {
    @Test(arguments: SignatureAlgorithm.allCases)
    func whatAKeySignsItsSetAccepts(_ algorithm: SignatureAlgorithm) throws {
        let key = try TokenKey.generate(algorithm)
        var made = try token("zoë/1")
        made.device = DeviceID("phone")
        made.role = .server
        made.issuer = "bellwire"
        made.audience = ["a", "b"]
        let text = try made.signed(by: key, issuedAt: now)
        let (read, signer) = try TokenVerifier(keys: KeySet([key]), issuer: "bellwire", audience: "b").verify(
            text, now: now)
        #expect(read == made)
        #expect(signer.id == key.id)
        // Each part counts.
        for place in text.indices where text[place] != "." && Int.random(in: 0..<4) == 0 {
            var other = text
            other.replaceSubrange(place...place, with: text[place] == "A" ? "B" : "A")
            #expect(throws: TokenError.self) { try TokenVerifier(keys: KeySet([key])).verify(other, now: now) }
        }
    }

    /// The life counts from the issue, or from now where the issue is not told or is told too late.
    @Test func aTokenThatLivesTooLongIsRefused() throws {
        let key = try TokenKey.generate(.es256)
        let verifier = TokenVerifier(keys: KeySet([key]), audience: "bellwire", longestLife: 3_600_000)
        func refusal(issuedAt: Int64, endsAt: Int64, _ role: Token.Role = .device) -> TokenError.Kind? {
            kind {
                var made = try token()
                made.role = role
                made.audience = ["bellwire"]
                made.expiresAt = endsAt
                _ = try verifier.verify(try made.signed(by: key, issuedAt: issuedAt), now: now)
            }
        }
        #expect(refusal(issuedAt: now, endsAt: now + 3_600_000) == nil)
        #expect(refusal(issuedAt: now, endsAt: now + 3_601_000) == .lifetime)
        #expect(refusal(issuedAt: now - 3_500_000, endsAt: now + 101_000) == .lifetime)
        #expect(refusal(issuedAt: now + 7_200_000, endsAt: now + 7_300_000) == .lifetime)
        #expect(refusal(issuedAt: now, endsAt: now + 3_601_000, .admin) == .lifetime)
        #expect(refusal(issuedAt: now, endsAt: now + 3_601_000, .server) == nil)
        #expect(refusal(issuedAt: now, endsAt: now + 3_601_000, .coordinator) == nil)
    }

    @Test(arguments: SignatureAlgorithm.allCases)
    func keysAreTheSameAfterTheirFile(_ algorithm: SignatureAlgorithm) throws {
        let key = try TokenKey.generate(algorithm)
        let stored = try KeySet(json: KeySet([key]).encoded(isPublic: false))
        #expect(stored.contains(key))
        #expect(stored.signingKey?.id == key.id)
        let text = try token().signed(by: try #require(stored.signingKey), issuedAt: now)
        _ = try TokenVerifier(keys: KeySet([key])).verify(text, now: now)
        guard algorithm.isAsymmetric else {
            #expect(kind { _ = try KeySet(json: KeySet([key]).encoded(isPublic: true)) } == .keys)
            return
        }
        let published = KeySet([key]).encoded(isPublic: true)
        #expect(!String(decoding: published, as: UTF8.self).contains("\"d\""))
        let open = try KeySet(json: published)
        #expect(open.signingKey == nil && open.contains(key))
        _ = try TokenVerifier(keys: open).verify(text, now: now)
        #expect(kind { _ = try token().signed(by: open.keys[0], issuedAt: now) } == .keys)
    }

    @Test func timesCountToTheMillisecond() throws {
        let key = try TokenKey.generate(.es256)
        let verifier = TokenVerifier(keys: KeySet([key]))
        let text = try token(lasts: 60_000).signed(by: key, issuedAt: now)
        _ = try verifier.verify(text, now: now + 59_999)
        #expect(kind { _ = try verifier.verify(text, now: now + 60_000) } == .expired)
        func claims(_ more: String) throws -> String {
            try forged(header: #"{"alg":"ES256"}"#, claims: #"{"sub":"alice"\#(more)}"#, by: key)
        }
        #expect(kind { _ = try verifier.verify(try claims(""), now: now) } == .malformed, "no end")
        for exp in ["null", "\"1\"", "-1", "1e300", "[]"] {
            #expect(kind { _ = try verifier.verify(try claims(#","exp":\#(exp)"#), now: now) } == .malformed)
        }
        let fraction = try verifier.verify(try claims(#","exp":1800000000.5"#), now: now)
        #expect(fraction.token.expiresAt == now + 500)
        let future = #","exp":1800000900,"nbf":1800000060"#
        #expect(kind { _ = try verifier.verify(try claims(future), now: now) } == .notYetValid)
        _ = try verifier.verify(try claims(future), now: now + 55_000)
    }

    @Test func noOtherAlgorithmThanTheKeysOwnCounts() throws {
        let rsa = try TokenKey.generate(.rs256)
        let verifier = TokenVerifier(keys: try KeySet(json: KeySet([rsa]).encoded(isPublic: true)))
        let claims = #"{"sub":"alice","exp":1900000000}"#
        for header in [
            #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":""}"#, "{}", #"{"alg":"HS512"}"#, #"{"alg":7}"#,
        ] {
            let unsigned = Base64URL.encode(bytes(header)) + "." + Base64URL.encode(bytes(claims)) + "."
            #expect(kind { _ = try verifier.verify(unsigned, now: now) } == .algorithm, "\(header)")
        }
        // The public key, which every client has, serves as the secret of HS256.
        let open = KeySet([rsa]).encoded(isPublic: true)
        let confused = try KeySet(json: bytes(#"{"kty":"oct","k":"\#(Base64URL.encode(open))"}"#)).keys[0]
        let id = try #require(rsa.id)
        #expect(
            kind {
                _ = try verifier.verify(
                    try forged(header: #"{"alg":"HS256","kid":"\#(id)"}"#, claims: claims, by: confused), now: now)
            } == .algorithm)
        #expect(
            kind {
                _ = try verifier.verify(try forged(header: #"{"alg":"HS256"}"#, claims: claims, by: confused), now: now)
            } == .unknownKey)
    }

    @Test func aForeignKeyIsNoKey() throws {
        let (own, foreign) = (try TokenKey.generate(.es256), try TokenKey.generate(.es256))
        let verifier = TokenVerifier(keys: KeySet([own]))
        #expect(
            kind { _ = try verifier.verify(try token().signed(by: foreign, issuedAt: now), now: now) } == .unknownKey)
        let claims = #"{"sub":"alice","exp":1900000000}"#
        let id = try #require(own.id)
        for header in [#"{"alg":"ES256"}"#, #"{"alg":"ES256","kid":"\#(id)"}"#] {
            #expect(
                kind { _ = try verifier.verify(try forged(header: header, claims: claims, by: foreign), now: now) }
                    == .signature)
            _ = try verifier.verify(try forged(header: header, claims: claims, by: own), now: now)
        }
        #expect(
            kind {
                let header = #"{"alg":"ES256","crit":["exp"]}"#
                _ = try verifier.verify(try forged(header: header, claims: claims, by: own), now: now)
            } == .malformed)
    }

    @Test func oneKeyAfterTheOther() throws {
        let old = try TokenKey.generate(.es256)
        var keys = KeySet([old])
        let before = try token().signed(by: old, issuedAt: now)
        keys.add(try TokenKey.generate(.edDSA))
        #expect(keys.signingKey?.algorithm == .edDSA)
        let after = try token().signed(by: try #require(keys.signingKey), issuedAt: now)
        for text in [before, after] { _ = try TokenVerifier(keys: keys).verify(text, now: now) }
        #expect(kind { _ = try TokenVerifier(keys: KeySet([keys.keys[0]])).verify(before, now: now) } == .unknownKey)
    }

    @Test func issuerAndAudienceAreHeldWhenTheyAreSet() throws {
        let key = try TokenKey.generate(.hs256)
        let text = try token().signed(by: key, issuedAt: now)
        #expect(kind { _ = try TokenVerifier(keys: KeySet([key]), issuer: "a").verify(text, now: now) } == .issuer)
        #expect(kind { _ = try TokenVerifier(keys: KeySet([key]), audience: "a").verify(text, now: now) } == .audience)
    }

    private func named(_ name: String) throws -> TokenKey {
        let made = try TokenKey.generate(.es256)
        let text = String(decoding: KeySet([made]).encoded(isPublic: false), as: UTF8.self)
        let renamed = text.replacing(try #require(made.id), with: name)
        return try #require(try KeySet(json: Array(renamed.utf8)).signingKey)
    }

    /// Issuers, audiences and key names are compared as bytes: Swift's strings hold both spellings equal.
    @Test func theTwinOfAnIssuerAnAudienceOrAKeyIsAnother() throws {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        let key = try named(composed)
        var made = try token()
        (made.issuer, made.audience) = (composed, [composed])
        let text = try made.signed(by: key, issuedAt: now)
        func verify(_ keys: KeySet, issuer: String? = nil, audience: String? = nil) throws {
            _ = try TokenVerifier(keys: keys, issuer: issuer, audience: audience).verify(text, now: now)
        }
        try verify(KeySet([key]), issuer: composed, audience: composed)
        #expect(kind { try verify(KeySet([key]), issuer: decomposed) } == .issuer)
        #expect(kind { try verify(KeySet([key]), audience: decomposed) } == .audience)
        let twin = try named(decomposed)
        #expect(kind { try verify(KeySet([twin])) } == .unknownKey)
        try verify(KeySet([twin, key]))
    }

    @Test(arguments: [
        (#"{"exp":1900000000}"#, TokenError.Kind.subject), (#"{"sub":"","exp":1900000000}"#, .subject),
        (#"{"sub":7,"exp":1900000000}"#, .subject), (#"{"sub":"a","exp":1900000000,"device":"a/b"}"#, .malformed),
        ("[]", .malformed), ("{", .malformed),
    ])
    func claimsThatCannotBeUsed(_ claims: String, _ expected: TokenError.Kind) throws {
        let key = try TokenKey.generate(.es256)
        let text = try forged(header: #"{"alg":"ES256"}"#, claims: claims, by: key)
        #expect(kind { _ = try TokenVerifier(keys: KeySet([key])).verify(text, now: now) } == expected)
    }

    /// RFC 7515, section 4.1.9; RFC 9068, section 4.
    @Test(arguments: [
        ("JWT", true), ("jwt", true), ("at+jwt", true), ("application/at+jwt", true), ("application/AT+JWT", true),
        ("application/jwt", true), ("text/at+jwt", false), ("application/jose", false), ("", false),
    ])
    func theTypeOfATokenMayBeWrittenInFull(_ type: String, _ counts: Bool) throws {
        let key = try TokenKey.generate(.es256)
        let text = try forged(
            header: #"{"alg":"ES256","typ":"\#(type)"}"#, claims: #"{"sub":"a","exp":1900000000}"#, by: key)
        let found = kind { _ = try TokenVerifier(keys: KeySet([key])).verify(text, now: now) }
        #expect(found == (counts ? nil : .malformed))
    }

    @Test func whoIsNobodySpecialIsADevice() throws {
        let key = try TokenKey.generate(.es256)
        func role(_ more: String) throws -> Token.Role {
            let claims = #"{"sub":"a","exp":1900000000\#(more)}"#
            return try TokenVerifier(keys: KeySet([key])).verify(
                try forged(header: #"{"alg":"ES256"}"#, claims: claims, by: key), now: now
            ).token.role
        }
        #expect(try role("") == .device)
        #expect(try role(#","role":"customer""#) == .device)
        #expect(try role(#","role":["server"],"admin":"true""#) == .device)
        #expect(try role(#","role":"server""#) == .server)
        #expect(try role(#","admin":true"#) == .server)
        #expect(try role(#","role":"coordinator""#) == .coordinator)
    }

    @Test(arguments: ["", ".", "..", "a.b.c", "e30.e30.", "e30.e30.e30.e30", String(repeating: "a", count: 9_000)])
    func whatIsNoTokenIsRefused(_ text: String) throws {
        #expect(throws: TokenError.self) {
            try TokenVerifier(keys: KeySet([try TokenKey.generate(.es256)])).verify(text, now: now)
        }
    }
}

@Suite struct KeySetTests {
    /// RFC 7515, appendix A.1 and A.3; RFC 8037, appendix A.4.
    @Test func theExamplesOfTheStandards() throws {
        let claims =
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
        let examples = [
            (
                #"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#,
                "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + claims, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
            ),
            (
                #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}"#,
                "eyJhbGciOiJFUzI1NiJ9." + claims,
                "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
            ),
            (
                #"{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
                "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
                "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
            ),
        ]
        for (json, message, signature) in examples {
            let key = try KeySet(json: bytes(json)).keys[0].key
            let signature = try #require(Base64URL.decode(signature.utf8))
            #expect(key.isValid(signature, of: bytes(message)), "\(key.algorithm)")
            #expect(!key.isValid(signature, of: bytes(message + " ")), "\(key.algorithm)")
            #expect(!key.isValid([], of: bytes(message)), "\(key.algorithm)")
        }
    }

    @Test func keysForOtherUsesArePassedOver() throws {
        let own = try TokenKey.generate(.es256)
        let text = String(decoding: KeySet([own]).encoded(isPublic: true), as: UTF8.self)
        let others = #"{"kty":"EC","crv":"P-384"},{"kty":"RSA","use":"enc"},{"kty":"RSA","alg":"RS512"},{"kty":"new"},"#
        let keys = try KeySet(json: bytes(text.replacing("[", with: "[" + others)))
        #expect(keys.keys.map(\.id) == [own.id])
        #expect(keys.unusable.count == 3)
        #expect(keys.hasOthers)
    }

    /// Another program writes the set: each odd key stands beside a good key, which counts all the same.
    @Test(arguments: [
        (#"{"kty":"EC","crv":"P-256","kid":"odd","x":"AA","y":"AA"}"#, "x: expected 32 bytes"),
        (#"{"kty":"RSA","kid":"odd","n":"AQAB==","e":"AQAB"}"#, "n: expected bytes in base64url"),
        (#"{"kty":"oct","kid":"odd","k":"c2hvcnQ"}"#, "k: a secret has at least 32 bytes"),
        (#"{"kid":"odd","x":"AA"}"#, "kty: missing"), (#"{"kty":"EC","crv":"P-384","kid":"odd"}"#, "crv: not a curve"),
        (#"{"kty":"OKP","crv":"Ed25519","kid":"odd","alg":"ES256"}"#, "alg: only EdDSA"),
        (
            #"{"kty":"EC","crv":"P-256","kid":"odd","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}"#,
            "its parts"
        ),
    ])
    func aKeyThatCannotBeUsedIsPassedOverAndNamed(_ odd: String, _ reason: String) throws {
        let own = try TokenKey.generate(.es256)
        let text = String(decoding: KeySet([own]).encoded(isPublic: true), as: UTF8.self)
        let keys = try KeySet(json: bytes(text.replacing("[", with: "[" + odd + ",")))
        #expect(keys.keys.map(\.id) == [own.id])
        #expect(keys.unusable.count == 1 && keys.unusable[0].hasPrefix("key 1, kid odd: \(reason)"), "\(keys.unusable)")
        _ = try TokenVerifier(keys: keys).verify(token().signed(by: own, issuedAt: now), now: now)
        // Alone the odd key is no key set, and the reason is told.
        do throws(TokenError) {
            _ = try KeySet(json: bytes(#"{"keys":[\#(odd)]}"#))
            Issue.record("a set without a usable key")
        } catch {
            #expect(error.kind == .keys && error.description.contains(reason))
        }
    }

    @Test(arguments: [#"7"#, #"{"kty":"oct","kid":7}"#, #"{"kty":"oct","kid":""}"#])
    func aKeyWithoutANameIsNamedByItsPlace(_ odd: String) throws {
        let own = try TokenKey.generate(.es256)
        let text = String(decoding: KeySet([own]).encoded(isPublic: true), as: UTF8.self)
        let keys = try KeySet(json: bytes(text.replacing("]", with: "," + odd + "]")))
        #expect(keys.unusable.count == 1 && keys.unusable[0].hasPrefix("key 2: "), "\(keys.unusable)")
    }

    /// A name in the file becomes no second line of a log.
    @Test func theNameOfAKeyIsPrintedOnOneLine() throws {
        let own = try TokenKey.generate(.es256)
        let text = String(decoding: KeySet([own]).encoded(isPublic: true), as: UTF8.self)
        let odd = #"{"kty":"oct","kid":"a\nb\u202e\#(String(repeating: "x", count: 100))","k":"AA"}"#
        let keys = try KeySet(json: bytes(text.replacing("[", with: "[" + odd + ",")))
        let name = "a?b?" + String(repeating: "x", count: 60)
        #expect(keys.unusable == ["key 1, kid \(name): k: a secret has at least 32 bytes"])
    }

    /// RFC 7517, section 4.5.
    @Test func keysOfDifferentKindsMayHaveTheSameName() throws {
        let made = [try TokenKey.generate(.es256), try TokenKey.generate(.rs256), try TokenKey.generate(.edDSA)]
        var text = String(decoding: KeySet(made).encoded(isPublic: false), as: UTF8.self)
        for key in made { text = text.replacing(try #require(key.id), with: "same") }
        let keys = try KeySet(json: bytes(text))
        #expect(keys.keys.map(\.id) == ["same", "same", "same"] && keys.unusable.isEmpty)
        let verifier = TokenVerifier(keys: keys)
        for key in keys.keys { _ = try verifier.verify(token().signed(by: key, issuedAt: now), now: now) }
        // No key of the set has this algorithm.
        let secret = CryptographicKey(secret: [UInt8](repeating: 7, count: 32))
        let message = Base64URL.encode(bytes(#"{"alg":"HS256","kid":"same"}"#)) + ".e30"
        let forged = message + "." + Base64URL.encode(try secret.sign(bytes(message)))
        #expect(kind { _ = try verifier.verify(forged, now: now) } == .algorithm)
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"keys":7}"#, #"{"keys":[]}"#, #"{"keys":[7]}"#, #"{"keys":[{"kty":"new"}]}"#,
        #"{"kty":"oct","k":"c2hvcnQ"}"#, #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
        #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, #"{"kty":"OKP","crv":"Ed25519","x":"!"}"#,
        #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}"#,
    ])
    func whatIsNoKeySetIsAnError(_ text: String) {
        #expect(kind { _ = try KeySet(json: bytes(text)) } == .keys)
    }

    @Test func aPrivateHalfOfAnotherKeyIsAnError() throws {
        let json = { (key: TokenKey) in String(decoding: KeySet([key]).encoded(isPublic: false), as: UTF8.self) }
        for algorithm in [SignatureAlgorithm.es256, .edDSA] {
            let (first, second) = (json(try .generate(algorithm)), json(try .generate(algorithm)))
            let field = try Regex(#""d":"[^"]*""#)
            let other = String(try #require(second.firstMatch(of: field)).0)
            #expect(kind { _ = try KeySet(json: bytes(first.replacing(field, with: other))) } == .keys, "\(algorithm)")
        }
    }

    @Test func oneNameIsOneKeyOfAKind() throws {
        let (key, other) = (try TokenKey.generate(.es256), try TokenKey.generate(.es256))
        let text = String(decoding: KeySet([key, other]).encoded(isPublic: false), as: UTF8.self)
        let keys = try KeySet(json: bytes(text.replacing(try #require(other.id), with: try #require(key.id))))
        #expect(keys.keys.count == 1 && keys.contains(key))
        #expect(keys.unusable.count == 1 && keys.unusable[0].contains("same kid"), "\(keys.unusable)")
    }
}

@Suite struct Base64URLTests {
    @Test func eachValueHasOneSpelling() {
        for count in 0...66 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ count) }
            #expect(Base64URL.decode(Base64URL.encode(bytes).utf8) == bytes)
        }
        for text in ["A", "AAAAA", "AB=", "A B", "+/", "AB", "AAB"] {
            #expect(Base64URL.decode(text.utf8) == nil, "\(text)")
        }
    }
}
