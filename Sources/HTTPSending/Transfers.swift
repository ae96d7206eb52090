import CCurl
import Glibc

/// curl's transfers under way, and its connections. One thread uses it, but `wake()` is for any.
final class Transfers: @unchecked Sendable {
    // Sendable: the handle never changes, and curl lets any thread call curl_multi_wakeup as long as the handle is there. Everything
    // else is called by the sender's thread alone.

    private let handle: UnsafeMutableRawPointer
    /// Of all connections; they are closed, at the latest, with the handle.
    let sockets = OpenSockets()

    /// Connections without a request that are kept for the next one.
    private static let mostKept = 50

    init?() {
        guard let handle = curl_multi_init() else { return nil }
        self.handle = handle
        guard bellwire_curl_set_multi_number(handle, CURLMOPT_MAXCONNECTS, Self.mostKept) == CURLM_OK,
            bellwire_curl_set_multi_number(handle, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX)) == CURLM_OK
        else { return nil }
    }

    deinit { curl_multi_cleanup(handle) }

    /// Ends the wait of `wait`, or of the next one.
    func wake() { curl_multi_wakeup(handle) }

    func add(_ transfer: UnsafeMutableRawPointer) -> Bool { curl_multi_add_handle(handle, transfer) == CURLM_OK }

    func remove(_ transfer: UnsafeMutableRawPointer) { curl_multi_remove_handle(handle, transfer) }

    /// Does what can be done without waiting.
    func perform() {
        var running: Int32 = 0
        curl_multi_perform(handle, &running)
    }

    /// One that has come to its end since it was asked last, and how.
    func nextFinished() -> (transfer: UnsafeMutableRawPointer, code: CURLcode)? {
        var left: Int32 = 0
        while let message = curl_multi_info_read(handle, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let transfer = message.pointee.easy_handle else { continue }
            return (transfer, message.pointee.data.result)
        }
        return nil
    }

    /// Waits until there is something to do, at most for `milliseconds`.
    func wait(milliseconds: Int32) {
        let code = curl_multi_poll(handle, nil, 0, milliseconds, nil)
        // Without memory it does not wait: not to turn in circles then.
        if code != CURLM_OK { usleep(10_000) }
    }
}
