import COpenSSL

/// Private keys in files: PKCS #8 in PEM (RFC 5958, RFC 7468).
extension CryptographicKey {
    /// Reads a private key of RSA, P-256 or Ed25519 for this algorithm. The error repeats no part of the text. An
    /// encrypted key cannot be used, since no operator is there to enter its password.
    package convenience init(_ algorithm: SignatureAlgorithm, pem: [UInt8]) throws(TokenError) {
        // OpenSSL's errors about a damaged file must not be found by later users of OpenSSL.
        defer { ERR_clear_error() }
        // The BIO reads the bytes in place without a copy, so that they must not move until the key is read.
        let read = pem.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let file = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return nil }
            defer { BIO_free(file) }
            // With a given password, OpenSSL does not ask for a password on the terminal.
            var noPassword: CChar = 0
            return PEM_read_bio_PrivateKey(file, nil, nil, &noPassword)
        }
        guard let pair = read else {
            throw Self.failure("no private key in PEM that is not encrypted")
        }
        do throws(TokenError) {
            try Self.check(pair, algorithm)
        } catch {
            EVP_PKEY_free(pair)
            throw error
        }
        self.init(algorithm, pair)
    }

    private static func check(_ pair: OpaquePointer, _ algorithm: SignatureAlgorithm) throws(TokenError) {
        switch algorithm {
        case .es256:
            var name = [CChar](repeating: 0, count: 64)
            guard EVP_PKEY_is_a(pair, "EC") == 1, EVP_PKEY_get_group_name(pair, &name, name.count, nil) == 1,
                name.withUnsafeBufferPointer({ $0.baseAddress.map { String(cString: $0) } }) == "prime256v1"
            else { throw failure("not a key of the curve P-256") }
        case .rs256:
            guard EVP_PKEY_is_a(pair, "RSA") == 1 else { throw failure("not a key of RSA") }
            guard (2048...8192).contains(EVP_PKEY_get_bits(pair)) else {
                throw failure("an RSA key has 2048 to 8192 bits")
            }
        case .edDSA:
            guard EVP_PKEY_is_a(pair, "ED25519") == 1 else { throw failure("not a key of Ed25519") }
        case .hs256: throw failure("keys for \(algorithm.rawValue) are not read from PEM")
        }
    }

    /// Returns the private key in PEM.
    package func pem() throws(TokenError) -> [UInt8] {
        guard case .pair(let pair) = material, let file = BIO_new(BIO_s_secmem()) else {
            throw Self.failure("no private key to write")
        }
        defer { BIO_free(file) }
        guard PEM_write_bio_PKCS8PrivateKey(file, pair, nil, nil, 0, nil, nil) == 1 else {
            throw Self.failure("the key cannot be written")
        }
        var text = [UInt8](repeating: 0, count: 16 * 1024)
        let count = BIO_read(file, &text, Int32(text.count))
        guard count > 0 else { throw Self.failure("the key cannot be written") }
        return Array(text.prefix(Int(count)))
    }
}

/// Keys of P-256 by which two sides agree on a secret (RFC 8291, section 3.1).
extension CryptographicKey {
    /// The public half as a point: 4 and both coordinates, 65 bytes (SEC 1, section 2.3.3).
    package var publicPoint: [UInt8]? {
        guard algorithm == .es256, let x = number("qx", count: 32), let y = number("qy", count: 32) else { return nil }
        return [4] + x + y
    }

    /// Returns the secret that this private key and the other side's public key have in common: 32 bytes. Throws when
    /// `point` is not on the curve.
    package func sharedSecret(with point: [UInt8]) throws(TokenError) -> [UInt8] {
        defer { ERR_clear_error() }
        guard case .pair(let own) = material, algorithm == .es256 else { throw Self.failure("not a key of P-256") }
        let other = try CryptographicKey(
            .es256, [.text("group", "P-256"), .bytes("pub", point)], isPrivate: false)
        guard case .pair(let peer) = other.material, let context = EVP_PKEY_CTX_new_from_pkey(nil, own, nil) else {
            throw Self.failure("no memory")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var secret = [UInt8](repeating: 0, count: 32)
        var count = secret.count
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, peer) == 1,
            EVP_PKEY_derive(context, &secret, &count) == 1, count == secret.count
        else { throw Self.failure("no secret in common") }
        return secret
    }
}
