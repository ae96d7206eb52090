extension JSONValue {
    /// The milliseconds since the Unix epoch of a NumericDate (RFC 7519, section 2), which is a number of seconds,
    /// possibly with a fraction; nil for another value.
    package var numericDate: Int64? {
        let seconds: Double
        switch self {
        case .int(let whole): seconds = Double(whole)
        case .double(let number): seconds = number
        default: return nil
        }
        // This bound is far beyond any life of a token, and far below the overflow of milliseconds.
        guard (0...1e12).contains(seconds) else { return nil }
        return Int64(seconds * 1000)
    }
}
