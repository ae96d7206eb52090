#if canImport(CryptoKit)
    import CryptoKit

    func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }
#else
    import Tokens

    func sha256(_ bytes: [UInt8]) -> [UInt8] { Digest.sha256(bytes) }
#endif
