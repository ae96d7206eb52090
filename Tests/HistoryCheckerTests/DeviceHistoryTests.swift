import Testing

@testable import HistoryChecker

struct DeviceHistoryTests {
    /// Sessions are compared as bytes: Swift's strings hold both spellings equal.
    @Test func theTwinOfASessionIsAnother() {
        var history = DeviceHistory()
        history.connect("caf\u{E9}", at: 0)
        #expect(history.isSession("caf\u{E9}"))
        #expect(!history.isSession("cafe\u{301}"))
    }
}
