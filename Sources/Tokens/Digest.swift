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
