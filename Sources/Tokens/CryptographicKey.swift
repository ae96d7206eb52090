import COpenSSL

/// A key in OpenSSL. Only the files of this type call OpenSSL for keys; Bellwire has no cryptography of its own.
package final class CryptographicKey: @unchecked Sendable {
    // Sendable: a key never changes after its creation, and OpenSSL allows several threads to use a key at once.

    enum Material {
        case secret([UInt8])
        case pair(OpaquePointer)
    }

    package let algorithm: SignatureAlgorithm
    let material: Material

    /// Creates a key for HMAC from a secret.
    package init(secret: [UInt8]) {
        algorithm = .hs256
        material = .secret(secret)
    }

    init(_ algorithm: SignatureAlgorithm, _ pair: OpaquePointer) {
        self.algorithm = algorithm
        material = .pair(pair)
    }

    deinit {
        switch material {
        case .secret(var secret): secret.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        case .pair(let pair): EVP_PKEY_free(pair)
        }
    }

    // MARK: Making keys

    /// Creates a key with at least 128 bits of security (RSA: 112, with 2048 bits).
    package static func generate(_ algorithm: SignatureAlgorithm) throws(TokenError) -> CryptographicKey {
        switch algorithm {
        case .hs256: return CryptographicKey(secret: try randomBytes(32))
        case .rs256:
            return try generate(algorithm, "RSA") { EVP_PKEY_CTX_set_rsa_keygen_bits($0, 2048) }
        case .es256: return try generate(algorithm, "EC") { EVP_PKEY_CTX_set_group_name($0, "P-256") }
        case .edDSA: return try generate(algorithm, "ED25519") { _ in 1 }
        }
    }

    private static func generate(
        _ algorithm: SignatureAlgorithm, _ name: String, _ configure: (OpaquePointer) -> Int32
    ) throws(TokenError) -> CryptographicKey {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, name, nil) else { throw failure("no \(name) keys") }
        defer { EVP_PKEY_CTX_free(context) }
        var pair: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, configure(context) == 1, EVP_PKEY_generate(context, &pair) == 1,
            let pair
        else { throw failure("no \(name) key could be made") }
        return CryptographicKey(algorithm, pair)
    }

    package static func randomBytes(_ count: Int) throws(TokenError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard RAND_bytes(&bytes, Int32(count)) == 1 else { throw failure("no random numbers") }
        return bytes
    }

    /// A number or text of a key, with OpenSSL's name for this parameter. The name is static, since OpenSSL keeps the
    /// address of the name.
    enum Parameter {
        case number(StaticString, [UInt8])
        case bytes(StaticString, [UInt8])
        case text(StaticString, String)
    }

    /// Creates a key from its numbers. Throws unless the numbers make a key of this kind that is strong enough.
    init(_ algorithm: SignatureAlgorithm, _ parameters: [Parameter], isPrivate: Bool) throws(TokenError) {
        let name =
            switch algorithm {
            case .rs256: "RSA"
            case .es256: "EC"
            case .edDSA: "ED25519"
            case .hs256: preconditionFailure("a secret has no numbers")
            }
        guard let builder = OSSL_PARAM_BLD_new(), let context = EVP_PKEY_CTX_new_from_name(nil, name, nil) else {
            throw Self.failure("no \(name) keys")
        }
        var numbers: [OpaquePointer] = []
        // The builder refers to the pushed bytes until the parameters are made.
        var blocks: [UnsafeMutableRawBufferPointer] = []
        defer {
            OSSL_PARAM_BLD_free(builder)
            EVP_PKEY_CTX_free(context)
            for number in numbers { BN_clear_free(number) }
            for block in blocks {
                OPENSSL_cleanse(block.baseAddress, block.count)
                block.deallocate()
            }
        }
        for parameter in parameters {
            let isPushed: Int32
            switch parameter {
            case .number(let key, let bytes):
                guard let number = BN_bin2bn(bytes, Int32(bytes.count), nil) else { throw Self.failure("a number") }
                numbers.append(number)
                isPushed = OSSL_PARAM_BLD_push_BN(builder, key.cString, number)
            case .bytes(let key, let bytes):
                let block = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
                block.copyBytes(from: bytes)
                blocks.append(block)
                isPushed = OSSL_PARAM_BLD_push_octet_string(builder, key.cString, block.baseAddress, bytes.count)
            case .text(let key, let text):
                let block = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count + 1, alignment: 1)
                block.copyBytes(from: Array(text.utf8) + [0])
                blocks.append(block)
                isPushed = OSSL_PARAM_BLD_push_utf8_string(builder, key.cString, block.baseAddress, text.utf8.count)
            }
            guard isPushed == 1 else { throw Self.failure("its parts are not usable") }
        }
        guard let made = OSSL_PARAM_BLD_to_param(builder) else { throw Self.failure("its parts are not usable") }
        defer { OSSL_PARAM_free(made) }
        var pair: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &pair, isPrivate ? bellwire_key_pair : bellwire_public_key, made) == 1, let pair
        else { throw Self.failure("its parts do not make a key") }
        self.algorithm = algorithm
        material = .pair(pair)
        guard let check = EVP_PKEY_CTX_new_from_pkey(nil, pair, nil) else { throw Self.failure("cannot be checked") }
        defer { EVP_PKEY_CTX_free(check) }
        guard EVP_PKEY_public_check(check) == 1, !isPrivate || EVP_PKEY_pairwise_check(check) == 1 else {
            throw Self.failure("its parts do not belong together")
        }
        if algorithm == .rs256, !(2048...8192).contains(EVP_PKEY_get_bits(pair)) {
            throw TokenError(.keys, "an RSA key has 2048 to 8192 bits")
        }
    }

    // MARK: Reading a key's parts

    var secret: [UInt8]? {
        if case .secret(let secret) = material { secret } else { nil }
    }

    /// Returns a number of the key, big-endian and, when `count` is given, of that length.
    func number(_ name: StaticString, count: Int? = nil) -> [UInt8]? {
        guard case .pair(let pair) = material else { return nil }
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(pair, name.cString, &number) == 1, let number else { return nil }
        defer { BN_clear_free(number) }
        let length = count ?? Int(BN_num_bits(number) + 7) / 8
        var bytes = [UInt8](repeating: 0, count: length)
        return BN_bn2binpad(number, &bytes, Int32(length)) == Int32(length) ? bytes : nil
    }

    func bytes(_ name: StaticString) -> [UInt8]? {
        guard case .pair(let pair) = material else { return nil }
        var bytes = [UInt8](repeating: 0, count: 256)
        var count = 0
        guard EVP_PKEY_get_octet_string_param(pair, name.cString, &bytes, bytes.count, &count) == 1 else { return nil }
        return Array(bytes.prefix(count))
    }

    /// Whether both keys check the same tokens.
    func isSame(as other: CryptographicKey) -> Bool {
        switch (material, other.material) {
        case (.secret(let left), .secret(let right)):
            left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
        case (.pair(let left), .pair(let right)): EVP_PKEY_eq(left, right) == 1
        default: false
        }
    }

    // MARK: Signatures

    package func sign(_ message: [UInt8]) throws(TokenError) -> [UInt8] {
        switch material {
        case .secret(let secret):
            guard let code = Self.code(of: message, secret) else { throw Self.failure("no signature") }
            return code
        case .pair(let pair):
            guard let context = EVP_MD_CTX_new() else { throw Self.failure("no signature") }
            defer { EVP_MD_CTX_free(context) }
            guard EVP_DigestSignInit(context, nil, digest, nil, pair) == 1 else { throw Self.failure("no signature") }
            var count = 0
            guard EVP_DigestSign(context, nil, &count, message, message.count) == 1 else {
                throw Self.failure("no signature")
            }
            var signature = [UInt8](repeating: 0, count: count)
            guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else {
                throw Self.failure("no signature")
            }
            signature.removeLast(signature.count - count)
            guard algorithm == .es256 else { return signature }
            guard let plain = Self.plain(signature) else { throw Self.failure("no signature") }
            return plain
        }
    }

    package func isValid(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        // A failed check leaves errors in OpenSSL's queue, and later users of OpenSSL must not find these errors.
        defer { ERR_clear_error() }
        switch material {
        case .secret(let secret):
            guard let code = Self.code(of: message, secret) else { return false }
            return signature.count == code.count && CRYPTO_memcmp(signature, code, code.count) == 0
        case .pair(let pair):
            guard let encoded = algorithm == .es256 ? Self.encoded(signature) : signature,
                let context = EVP_MD_CTX_new()
            else { return false }
            defer { EVP_MD_CTX_free(context) }
            return EVP_DigestVerifyInit(context, nil, digest, nil, pair) == 1
                && EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
        }
    }

    /// The digest for signatures; nil for Ed25519, which includes a digest of its own.
    private var digest: OpaquePointer? { algorithm == .edDSA ? nil : EVP_sha256() }

    private static func code(of message: [UInt8], _ secret: [UInt8]) -> [UInt8]? {
        var code = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        guard HMAC(EVP_sha256(), secret, Int32(secret.count), message, message.count, &code, &count) != nil,
            count == code.count
        else { return nil }
        return code
    }

    /// The length of each of the two numbers of an ES256 signature in a token, in bytes (RFC 7518, section 3.4).
    private static let coordinateBytes = 32

    /// Converts OpenSSL's form of an ECDSA signature to the form in tokens.
    private static func plain(_ signature: [UInt8]) -> [UInt8]? {
        signature.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            guard let parsed = d2i_ECDSA_SIG(nil, &start, buffer.count) else { return nil }
            defer { ECDSA_SIG_free(parsed) }
            var bytes = [UInt8](repeating: 0, count: 2 * coordinateBytes)
            let isDone = bytes.withUnsafeMutableBufferPointer { bytes in
                let middle = bytes.baseAddress.map { $0 + coordinateBytes }
                return BN_bn2binpad(ECDSA_SIG_get0_r(parsed), bytes.baseAddress, Int32(coordinateBytes)) > 0
                    && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), middle, Int32(coordinateBytes)) > 0
            }
            return isDone ? bytes : nil
        }
    }

    /// Converts the form in tokens to OpenSSL's form.
    private static func encoded(_ signature: [UInt8]) -> [UInt8]? {
        guard signature.count == 2 * coordinateBytes, let made = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(made) }
        let r = signature.withUnsafeBufferPointer { BN_bin2bn($0.baseAddress, Int32(coordinateBytes), nil) }
        let s = signature.withUnsafeBufferPointer {
            BN_bin2bn($0.baseAddress.map { $0 + coordinateBytes }, Int32(coordinateBytes), nil)
        }
        guard ECDSA_SIG_set0(made, r, s) == 1 else { return nil }
        var start: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(made, &start)
        guard count > 0, let start else { return nil }
        defer { CRYPTO_free(start, #file, #line) }
        return Array(UnsafeBufferPointer(start: start, count: Int(count)))
    }

    static func failure(_ text: String) -> TokenError {
        ERR_clear_error()
        return TokenError(.keys, text)
    }
}

extension StaticString {
    fileprivate var cString: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }
}
