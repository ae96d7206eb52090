/// The span of a caller that is the parent of a request's spans, as `traceparent` of W3C Trace Context names the span:
/// `00-{trace id}-{span id}-{flags}`, in lower-case hexadecimal digits.
package struct TraceParent: Equatable, Sendable {
    /// 32 hexadecimal digits, not all of them 0.
    package let traceID: String
    /// 16 hexadecimal digits, not all of them 0.
    package let spanID: String

    /// Nil for a text that is no `traceparent`. A later version than 00 may have more fields behind the flags.
    package init?(_ text: String) {
        // A longer text is none of version 00, and of a later version 56 bytes say all.
        let bytes = Array(text.utf8.prefix(56))
        let dash = UInt8(ascii: "-")
        guard bytes.count >= 55, bytes[2] == dash, bytes[35] == dash, bytes[52] == dash,
            let version = Self.digits(bytes[0..<2]), version != "ff",
            version == "00" ? bytes.count == 55 : bytes.count == 55 || bytes[55] == dash,
            let traceID = Self.digits(bytes[3..<35]), traceID.utf8.contains(where: { $0 != UInt8(ascii: "0") }),
            let spanID = Self.digits(bytes[36..<52]), spanID.utf8.contains(where: { $0 != UInt8(ascii: "0") }),
            Self.digits(bytes[53..<55]) != nil
        else { return nil }
        self.traceID = traceID
        self.spanID = spanID
    }

    /// The text of version 00. The flags say that the span is sent.
    package var text: String { "00-\(traceID)-\(spanID)-01" }

    private static func digits(_ bytes: ArraySlice<UInt8>) -> String? {
        let areDigits = bytes.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
        }
        return areDigits ? String(decoding: bytes, as: UTF8.self) : nil
    }
}

/// The part of a request that a timeline keeps for the request's span.
package struct TraceOrigin: Equatable, Sendable {
    /// The parent that the sender of the request has named.
    package let parent: TraceParent?
    /// The microseconds from reading the request until its decision began.
    package let waited: Int64
    /// The microseconds from then until the decision was committed.
    package let served: Int64

    package init(parent: TraceParent?, waited: Int64, served: Int64) {
        self.parent = parent
        self.waited = waited
        self.served = served
    }

    func write(to writer: inout JSONWriter) {
        writer.field("traceparent", parent?.text)
        writer.field("waited", waited)
        writer.field("served", served)
    }

    init?(json: JSONObject) {
        guard let waited = json["waited"]?.integer, let served = json["served"]?.integer, waited >= 0, served >= 0
        else { return nil }
        self.init(parent: json["traceparent"]?.string.flatMap(TraceParent.init), waited: waited, served: served)
    }
}
