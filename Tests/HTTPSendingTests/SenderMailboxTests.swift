import Glibc
import Testing

@testable import HTTPSending

/// The mailbox in which callers and the sender's thread exchange requests and answers.
struct SenderMailboxTests {
    private let mailbox: SenderMailbox

    init() throws { mailbox = try #require(SenderMailbox(mostOpen: 2)) }

    private func posted(_ id: UInt64) -> PostedRequest {
        PostedRequest(request: HTTPRequest(id: id, url: "https://example.com/"), time: 0)
    }

    private func answer(_ id: UInt64) -> HTTPAnswer {
        posted(id).answer(.failed(reason: "none", wasHandedOver: false), at: 3)
    }

    private var isReadable: Bool {
        var waiting = pollfd(fd: mailbox.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, 0) == 1
    }

    @Test func noMoreThanTheBoundAreOpenAtOnce() {
        #expect([1, 2, 3].map { mailbox.post(posted($0)) } == [.first, .further, .full])
        #expect(mailbox.takePosted().map(\.request.id) == [1, 2])
        // A taken request is not answered yet.
        #expect(mailbox.post(posted(4)) == .full)
        mailbox.deliver([answer(1)], inFlight: 1)
        #expect(mailbox.counts == (1, 0))
        #expect(mailbox.post(posted(5)) == .first)
        #expect(mailbox.counts == (1, 1))
    }

    @Test func theDescriptorIsReadableWhileThereAreAnswers() {
        #expect(!isReadable)
        mailbox.turnDown(answer(1))
        mailbox.turnDown(answer(2))
        #expect(isReadable)
        #expect(mailbox.takeAnswers().map(\.id) == [1, 2])
        #expect(!isReadable)
        #expect(mailbox.takeAnswers().isEmpty)
        mailbox.deliver([], inFlight: 0)
        #expect(!isReadable)
    }

    @Test func nothingIsTakenAfterTheEnd() {
        mailbox.stop()
        #expect(mailbox.post(posted(1)) == .stopping)
        #expect(mailbox.takePosted().isEmpty)
    }
}
