/// What docs/push.md uses of Apple's CryptoKit: bytes that are the same for the same data.
import Foundation

public enum SHA256 {
    public static func hash(data: Data) -> [UInt8] {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        var bytes: [UInt8] = []
        for byte in data { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        while bytes.count < 32 {
            state = (state ^ 0xFF) &* 0x100_0000_01B3
            bytes.append(UInt8(truncatingIfNeeded: state >> 32))
        }
        return bytes
    }
}
