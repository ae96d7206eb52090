import SignalingProtocol

/// A key that makes or checks tokens: one JSON Web Key (RFC 7517; RFC 7518, section 6; RFC 8037, section 2).
package struct TokenKey: Sendable {
    /// The key's name in tokens.
    package let id: String?
    /// Whether the key can make tokens.
    package let isPrivate: Bool
    let key: CryptographicKey

    package var algorithm: SignatureAlgorithm { key.algorithm }

    /// Creates a private key with a random name.
    package static func generate(_ algorithm: SignatureAlgorithm) throws(TokenError) -> TokenKey {
        let name = Base64URL.encode(try CryptographicKey.randomBytes(9))
        return TokenKey(id: name, isPrivate: true, key: try CryptographicKey.generate(algorithm))
    }

    private init(id: String?, isPrivate: Bool, key: CryptographicKey) {
        self.id = id
        self.isPrivate = isPrivate
        self.key = key
    }

    private static let maxIDBytes = 256
    private static let minSecretBytes = 32
    /// The length of each coordinate of P-256, and of a key of Ed25519.
    private static let coordinateBytes = 32
    /// The first byte of a point with both coordinates (SEC 1, section 2.3.3).
    private static let uncompressedPoint: UInt8 = 4

    /// The fields of an RSA key and OpenSSL's names for them; the first two are public.
    private static let rsaNumbers: [(field: StaticString, name: StaticString)] = [
        ("n", "n"), ("e", "e"), ("d", "d"), ("p", "rsa-factor1"), ("q", "rsa-factor2"), ("dp", "rsa-exponent1"),
        ("dq", "rsa-exponent2"), ("qi", "rsa-coefficient1"),
    ]
}

extension TokenKey {
    /// Reads a JSON Web Key. Returns nil for a key that is not for signatures. Throws for a key that is damaged, of
    /// another kind, or for an unknown algorithm. A set may contain such keys; they are skipped (RFC 7517, section 5).
    init?(_ json: JSONObject) throws(TokenError) {
        guard json["use"].map({ $0.string == "sig" }) ?? true else { return nil }
        let algorithm = try Self.algorithm(json)
        var id: String?
        if let given = json["kid"] {
            guard let text = given.string, (1...Self.maxIDBytes).contains(text.utf8.count) else {
                throw TokenError(.keys, "kid: expected 1 to \(Self.maxIDBytes) bytes")
            }
            id = text
        }
        let isPrivate = algorithm == .hs256 || json["d"] != nil
        let key: CryptographicKey
        switch algorithm {
        case .hs256:
            let secret = try Self.bytes(json, "k")
            guard secret.count >= Self.minSecretBytes else {
                throw TokenError(.keys, "k: a secret has at least \(Self.minSecretBytes) bytes")
            }
            key = CryptographicKey(secret: secret)
        case .rs256:
            var parameters: [CryptographicKey.Parameter] = []
            for (field, name) in Self.rsaNumbers.prefix(isPrivate ? Self.rsaNumbers.count : 2) {
                parameters.append(.number(name, try Self.bytes(json, "\(field)")))
            }
            key = try CryptographicKey(algorithm, parameters, isPrivate: isPrivate)
        case .es256:
            let point = try Self.coordinate(json, "x") + Self.coordinate(json, "y")
            var parameters: [CryptographicKey.Parameter] = [
                .text("group", "P-256"), .bytes("pub", [Self.uncompressedPoint] + point),
            ]
            if isPrivate { parameters.append(.number("priv", try Self.coordinate(json, "d"))) }
            key = try CryptographicKey(algorithm, parameters, isPrivate: isPrivate)
        case .edDSA:
            var parameters: [CryptographicKey.Parameter] = [.bytes("pub", try Self.coordinate(json, "x"))]
            if isPrivate { parameters.append(.bytes("priv", try Self.coordinate(json, "d"))) }
            key = try CryptographicKey(algorithm, parameters, isPrivate: isPrivate)
        }
        self.init(id: id, isPrivate: isPrivate, key: key)
    }

    private static func algorithm(_ json: JSONObject) throws(TokenError) -> SignatureAlgorithm {
        guard let kind = json["kty"]?.string else { throw TokenError(.keys, "kty: missing") }
        let algorithm: SignatureAlgorithm
        switch (kind, json["crv"]?.string) {
        case ("oct", _): algorithm = .hs256
        case ("RSA", _): algorithm = .rs256
        case ("EC", "P-256"?): algorithm = .es256
        case ("OKP", "Ed25519"?): algorithm = .edDSA
        case ("EC", _), ("OKP", _): throw TokenError(.keys, "crv: not a curve that is used here")
        default: throw TokenError(.keys, "kty: not a kind that is used here")
        }
        guard json["alg"].map({ $0.string == algorithm.rawValue }) ?? true else {
            throw TokenError(.keys, "alg: only \(algorithm.rawValue) is used with such keys")
        }
        return algorithm
    }

    private static func coordinate(_ json: JSONObject, _ field: String) throws(TokenError) -> [UInt8] {
        let bytes = try bytes(json, field)
        guard bytes.count == coordinateBytes else {
            throw TokenError(.keys, "\(field): expected \(coordinateBytes) bytes")
        }
        return bytes
    }

    private static func bytes(_ json: JSONObject, _ field: String) throws(TokenError) -> [UInt8] {
        guard let text = json[field]?.string, let bytes = Base64URL.decode(text.utf8), !bytes.isEmpty else {
            throw TokenError(.keys, "\(field): expected bytes in base64url")
        }
        return bytes
    }

    /// Writes the key; with `isPublic` only its public part, and no part of a secret.
    func write(_ writer: inout JSONWriter, isPublic: Bool) {
        let isWhole = isPrivate && !isPublic
        guard isWhole || algorithm.isAsymmetric else { return }
        writer.object { writer in
            func field(_ name: StaticString, _ bytes: [UInt8]?) {
                writer.field(name, bytes.map { Base64URL.encode($0) })
            }
            switch algorithm {
            case .hs256:
                writer.field("kty", "oct")
                field("k", key.secret)
            case .rs256:
                writer.field("kty", "RSA")
                for (name, number) in Self.rsaNumbers.prefix(isWhole ? Self.rsaNumbers.count : 2) {
                    field(name, key.number(number))
                }
            case .es256:
                writer.field("kty", "EC")
                writer.field("crv", "P-256")
                field("x", key.number("qx", count: Self.coordinateBytes))
                field("y", key.number("qy", count: Self.coordinateBytes))
                if isWhole { field("d", key.number("priv", count: Self.coordinateBytes)) }
            case .edDSA:
                writer.field("kty", "OKP")
                writer.field("crv", "Ed25519")
                field("x", key.bytes("pub"))
                if isWhole { field("d", key.bytes("priv")) }
            }
            writer.field("alg", algorithm.rawValue)
            writer.field("use", "sig")
            writer.field("kid", id)
        }
    }
}
