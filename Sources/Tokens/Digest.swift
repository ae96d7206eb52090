import COpenSSL

/// SHA-256.
package enum Digest {
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let isDone = EVP_Digest(bytes, bytes.count, &digest, &count, EVP_sha256(), nil) == 1
        precondition(isDone && count == 32, "SHA-256 needs nothing that could be missing")
        return digest
    }
}

/// SHA-256 of bytes that come in parts.
package final class DigestStream {
    private let context = EVP_MD_CTX_new()

    package init() {
        precondition(EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1, "SHA-256 needs nothing that could be missing")
    }

    deinit { EVP_MD_CTX_free(context) }

    package func add(_ bytes: [UInt8]) {
        precondition(EVP_DigestUpdate(context, bytes, bytes.count) == 1, "SHA-256 takes any bytes")
    }

    /// Returns the digest; no bytes may be added afterwards.
    package func finish() -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let isDone = EVP_DigestFinal_ex(context, &digest, &count) == 1
        precondition(isDone && count == 32, "SHA-256 needs nothing that could be missing")
        return digest
    }
}
