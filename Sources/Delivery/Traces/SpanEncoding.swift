import SignalingProtocol

/// The spans of a call in OTLP's JSON, as the elements of `resourceSpans`: an element for each coordinator. Ids are
/// hexadecimal, and numbers of 64 bits are texts, as OTLP asks.
enum SpanEncoding {
    static func encoded(_ spans: [Span], version: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 512 * spans.count)
        var coordinators: [String] = []
        for span in spans where !coordinators.contains(span.coordinator) { coordinators.append(span.coordinator) }
        for coordinator in coordinators {
            writer.object { writer in
                writer.object("resource") { writer in
                    writer.write([
                        Span.Attribute("service.name", .text("bellwire")),
                        Span.Attribute("service.instance.id", .text(coordinator)),
                        Span.Attribute("service.version", .text(version)),
                    ])
                }
                writer.array("scopeSpans") { writer in
                    writer.object { writer in
                        writer.object("scope") { $0.field("name", "bellwire") }
                        writer.array("spans") { writer in
                            for span in spans where span.coordinator == coordinator { writer.write(span) }
                        }
                    }
                }
            }
        }
        return writer.bytes
    }

    private static let head = Array(#"{"resourceSpans":["#.utf8)
    private static let foot = Array("]}".utf8)

    /// Returns the body of a request with the elements of several calls.
    static func body(_ elements: [[UInt8]]) -> [UInt8] {
        head + Array(elements.joined(separator: [UInt8(ascii: ",")])) + foot
    }
}

extension JSONWriter {
    fileprivate mutating func write(_ span: Span) {
        object { writer in
            writer.field("traceId", span.place.traceID)
            writer.field("spanId", span.place.spanID)
            writer.field("parentSpanId", span.parentID)
            writer.field("name", span.name)
            writer.field("kind", span.kind.rawValue)
            writer.field("startTimeUnixNano", "\(span.start)")
            writer.field("endTimeUnixNano", "\(span.end)")
            writer.write(span.attributes)
            writer.array("events") { writer in
                for event in span.events {
                    writer.object { writer in
                        writer.field("timeUnixNano", "\(event.time)")
                        writer.field("name", event.name)
                        writer.write(event.attributes)
                    }
                }
            }
            if let link = span.link {
                writer.array("links") { writer in
                    writer.object { writer in
                        writer.field("traceId", link.traceID)
                        writer.field("spanId", link.spanID)
                    }
                }
            }
            guard let failure = span.failure else { return }
            writer.object("status") { writer in
                writer.field("message", failure)
                writer.field("code", 2)
            }
        }
    }

    fileprivate mutating func write(_ attributes: [Span.Attribute]) {
        array("attributes") { writer in
            for attribute in attributes {
                writer.object { writer in
                    writer.field("key", "\(attribute.key)")
                    writer.object("value") { writer in
                        switch attribute.value {
                        case .text(let text): writer.field("stringValue", text)
                        case .number(let number): writer.field("intValue", "\(number)")
                        case .flag(let flag): writer.field("boolValue", flag)
                        }
                    }
                }
            }
        }
    }
}
