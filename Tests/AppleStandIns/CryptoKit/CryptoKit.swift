import Foundation

// A stand-in for the part of Apple's CryptoKit that the SDK uses, for type checks and tests on Linux: bytes that are
// the same for the same data, and no SHA-256.

public enum SHA256 {
    public static func hash(data: some Sequence<UInt8>) -> [UInt8] {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in data { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        var bytes: [UInt8] = []
        while bytes.count < 32 {
            state = (state ^ 0xFF) &* 0x100_0000_01B3
            bytes.append(UInt8(truncatingIfNeeded: state >> 32))
        }
        return bytes
    }
}
