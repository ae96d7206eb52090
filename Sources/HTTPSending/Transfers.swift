import CCurl
import Glibc

/// curl's transfers under way and its connections. Belongs to a single thread, except that any thread may call
/// `wake()`.
final class Transfers: @unchecked Sendable {
    // Sendable: the handle never changes, and curl allows any thread to call curl_multi_wakeup while the handle exists.
    // The sender's thread alone makes all other calls.

    private let handle: UnsafeMutableRawPointer
    /// The sockets of all connections; curl closes all sockets with the handle at the latest.
    let sockets = OpenSockets()

    /// The bound of idle connections that are kept for later requests.
    private static let mostKept = 50

    init?() {
        guard let handle = curl_multi_init() else { return nil }
        self.handle = handle
        guard bellwire_curl_set_multi_number(handle, CURLMOPT_MAXCONNECTS, Self.mostKept) == CURLM_OK,
            bellwire_curl_set_multi_number(handle, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX)) == CURLM_OK
        else { return nil }
    }

    deinit { curl_multi_cleanup(handle) }

    /// Ends the present or the next `wait`.
    func wake() { curl_multi_wakeup(handle) }

    func add(_ transfer: UnsafeMutableRawPointer) -> Bool { curl_multi_add_handle(handle, transfer) == CURLM_OK }

    func remove(_ transfer: UnsafeMutableRawPointer) { curl_multi_remove_handle(handle, transfer) }

    /// Does all work that needs no waiting.
    func perform() {
        var running: Int32 = 0
        curl_multi_perform(handle, &running)
    }

    /// Returns the next transfer that has ended, with its result.
    func nextFinished() -> (transfer: UnsafeMutableRawPointer, code: CURLcode)? {
        var left: Int32 = 0
        while let message = curl_multi_info_read(handle, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let transfer = message.pointee.easy_handle else { continue }
            return (transfer, message.pointee.data.result)
        }
        return nil
    }

    /// Waits until there is work, at most for `milliseconds`.
    func wait(milliseconds: Int32) {
        let code = curl_multi_poll(handle, nil, 0, milliseconds, nil)
        // curl_multi_poll fails at once when there is no memory; the pause avoids a busy loop.
        if code != CURLM_OK { usleep(10_000) }
    }
}
