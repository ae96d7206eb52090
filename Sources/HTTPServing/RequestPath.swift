/// Parses the path of a request.
package enum RequestPath {
    /// Returns the levels between the slashes, each decoded separately, so that an encoded slash in an id separates no
    /// levels. The first slash is required; `/` has one empty level, and `/a/` has an empty second level. Returns nil
    /// when the first slash is missing, or when a decoded level is not UTF-8.
    package static func levels(_ path: String) -> [String]? {
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count > 1, parts[0].isEmpty else { return nil }
        var levels: [String] = []
        for part in parts.dropFirst() {
            guard let level = percentDecoded(part) else { return nil }
            levels.append(level)
        }
        return levels
    }
}

/// Parses the query of a request.
package enum RequestQuery {
    /// Returns names and values in their order; a plus sign stands for a space (`application/x-www-form-urlencoded`). A
    /// missing value is empty. Returns nil when a decoded name or value is not UTF-8.
    package static func pairs(_ query: String) -> [(name: String, value: String)]? {
        var pairs: [(name: String, value: String)] = []
        for part in query.utf8.split(separator: UInt8(ascii: "&")) {
            let sides = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = percentDecoded(sides[0], plusIsSpace: true),
                let value = sides.count > 1 ? percentDecoded(sides[1], plusIsSpace: true) : ""
            else { return nil }
            pairs.append((name, value))
        }
        return pairs
    }
}

private func percentDecoded(_ text: Substring.UTF8View, plusIsSpace: Bool = false) -> String? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var rest = text[...]
    while let byte = rest.popFirst() {
        switch byte {
        case UInt8(ascii: "%"):
            guard let high = rest.popFirst().flatMap(hexadecimal), let low = rest.popFirst().flatMap(hexadecimal) else {
                return nil
            }
            bytes.append(high << 4 | low)
        case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
        default: bytes.append(byte)
        }
    }
    return String(validating: bytes, as: UTF8.self)
}

private func hexadecimal(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}
