import Testing

@testable import SignalingProtocol

/// `traceparent` (W3C Trace Context), and its place in stored timelines.
struct TraceParentTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let span = "00f067aa0ba902b7"

    @Test(arguments: [
        "00-\(trace)-\(span)-01", "00-\(trace)-\(span)-00", "01-\(trace)-\(span)-01", "cc-\(trace)-\(span)-01-more",
    ])
    func whatNamesASpan(_ text: String) throws {
        let parent = try #require(TraceParent(text))
        #expect(parent.traceID == Self.trace && parent.spanID == Self.span)
        #expect(parent.text == "00-\(Self.trace)-\(Self.span)-01")
    }

    @Test(arguments: [
        "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-0", "00-\(trace)-\(span)-01-more",
        "00-\(trace)-\(span)-01-",
        "01-\(trace)-\(span)-01more", "ff-\(trace)-\(span)-01", "0g-\(trace)-\(span)-01", "00-\(trace)-\(span)-0x",
        "00-\(trace.uppercased())-\(span)-01", "00-00000000000000000000000000000000-\(span)-01",
        "00-\(trace)-0000000000000000-01", "00_\(trace)-\(span)-01", "00-\(trace)_\(span)-01", "00-\(trace)-\(span)_01",
        " 00-\(trace)-\(span)-01", "00-\(trace)é-\(span)-1", String(repeating: "0", count: 10_000),
    ])
    func whatNamesNone(_ text: String) { #expect(TraceParent(text) == nil) }

    @Test func theOriginOfARequestIsStoredAndNotTold() throws {
        let device = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
        let origin = TraceOrigin(parent: TraceParent("00-\(Self.trace)-\(Self.span)-01"), waited: 5, served: 700)
        let entry = TraceEntry(
            time: 1, coordinator: "c", step: .request(device, type: "call.invite", outcome: "ok"), origin: origin)
        #expect(TraceEntry(entry.encoded())?.origin == origin)
        let told = JSONWriter.object { Timeline(entries: [entry]).write(to: &$0, since: 0) }
        let text = String(decoding: told, as: UTF8.self)
        #expect(!text.contains(Self.trace) && !text.contains("served") && text.contains("call.invite"))
    }

    @Test func anEntryOfAnotherVersionHasNoOrigin() {
        let device = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
        let entry = TraceEntry(time: 1, coordinator: "c", step: .ack(device, revision: 1))
        #expect(TraceEntry(entry.encoded()) == entry && entry.origin == nil)
    }
}
