// A stand-in for the part of Apple's CryptoKit that ZegoCallProtocol uses, for type checks on Linux.

public struct SHA256Digest: Sequence {
    public func makeIterator() -> AnyIterator<UInt8> { AnyIterator { nil } }
}

public enum SHA256 {
    public static func hash(data: some Sequence<UInt8>) -> SHA256Digest { SHA256Digest() }
}
