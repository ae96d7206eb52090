#if canImport(Tokens)
    import Tokens

    func sha256(_ bytes: [UInt8]) -> [UInt8] { Digest.sha256(bytes) }
#else
    import CryptoKit

    func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }
#endif
