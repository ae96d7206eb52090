/// Returns `text` in a form that may stand in a path, a query or a TURN user name (RFC 3986, section 2.3).
package func percentEncoded(_ text: String) -> String {
    var encoded: [UInt8] = []
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            encoded.append(byte)
        default:
            encoded.append(UInt8(ascii: "%"))
            encoded += String(byte >> 4, radix: 16, uppercase: true).utf8
            encoded += String(byte & 15, radix: 16, uppercase: true).utf8
        }
    }
    return String(decoding: encoded, as: UTF8.self)
}
