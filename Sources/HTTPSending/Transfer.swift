import CCurl
import Glibc
import Support

/// A request under way: curl's handle and the response so far. Belongs to the sender's thread.
final class Transfer {
    let posted: PostedRequest
    let destination: Destination
    let handle: UnsafeMutableRawPointer
    private var headers: UnsafeMutablePointer<curl_slist>?
    /// The reason why the last socket could not be opened.
    private var problem: String?
    private let openSockets: OpenSockets
    /// The numbers of the sockets that were opened for this transfer.
    private var sockets: [Int] = []
    /// Whether `handOverBefore` had passed when a connection was ready.
    private var isLate = false
    /// Whether the transfer only opens a connection for other requests.
    let isWarmUp: Bool
    /// The time when the transfer began, by the boot clock.
    private let start: Int64
    /// Whether the request may have reached the server.
    private(set) var wasHandedOver = false
    /// The connection of the request and the time of its hand-over, by the boot clock.
    private(set) var handedOver: (way: ConnectionWay, time: Int64)?
    private var body: [UInt8] = []
    private var isCut = false
    private var headerBytes = 0

    private var request: HTTPRequest { posted.request }

    /// The bound of all headers of a response in bytes, including headers before the last status line and after the
    /// body. curl itself accepts up to 100 KiB for a header and, since 8.3 and in Debian's 7.88, 300 KiB for all
    /// headers.
    static let mostHeaderBytes = 64 * 1024

    /// Returns nil when memory is short, or when this curl does not know a required option.
    init?(
        _ posted: PostedRequest, to destination: Destination, _ settings: SenderSettings, _ openSockets: OpenSockets,
        isWarmUp: Bool = false, now: Int64
    ) {
        guard let handle = curl_easy_init() else { return nil }
        self.openSockets = openSockets
        self.isWarmUp = isWarmUp
        start = now
        self.posted = posted
        self.destination = destination
        self.handle = handle
        var options = TransferOptions(handle)
        options.setSafety(destination.scheme)
        options.setTLS(settings.certificateAuthorityFile)
        options.setConnection(timeout: request.timeout, sharing: request.isToProvider)
        options.set(CURLOPT_CURLU, pointer: UnsafeRawPointer(destination.url))
        options.set(CURLOPT_USERAGENT, settings.userAgent)
        setMethod(&options)
        setHeaders(&options)
        // Not retained: the sender's loop keeps this object until curl has released the handle.
        let context = Unmanaged.passUnretained(self).toOpaque()
        options.note(bellwire_curl_set_judges(handle, openSocket, beforeRequest, context))
        // Not retained either: this object lives as long as curl's last connection.
        options.note(bellwire_curl_set_closer(handle, closeSocket, Unmanaged.passUnretained(openSockets).toOpaque()))
        options.note(bellwire_curl_set_receivers(handle, receiveHeader, receiveBody, context))
        guard options.areTaken else { return nil }
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(headers)
    }

    private func setMethod(_ options: inout TransferOptions) {
        if request.method == .post || !request.body.isEmpty {
            options.set(CURLOPT_POST, 1)
            options.note(
                bellwire_curl_set_size(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request.body.count)))
            // curl copies the given number of bytes; with a null pointer, curl would read the body from a callback.
            let body = request.body.isEmpty ? [0] : request.body
            body.withUnsafeBytes { options.set(CURLOPT_COPYPOSTFIELDS, pointer: $0.baseAddress) }
        } else if request.method == .head {
            options.set(CURLOPT_NOBODY, 1)
        } else {
            options.set(CURLOPT_HTTPGET, 1)
        }
        if request.method == .delete || request.method == .put {
            options.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
        }
    }

    private func setHeaders(_ options: inout TransferOptions) {
        // In curl, a semicolon marks a header without a value, and a colon without a value removes curl's own header.
        var lines = request.headers.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
        lines.append("Expect:")
        if !request.headers.contains(where: { $0.name.lowercased() == "content-type" }) {
            lines.append("Content-Type:")
        }
        for line in lines {
            guard let longer = curl_slist_append(headers, line) else { return options.note(CURLE_OUT_OF_MEMORY) }
            headers = longer
        }
        options.set(CURLOPT_HTTPHEADER, pointer: headers)
    }

    // MARK: Callbacks of curl

    /// Opens a socket for an address that is allowed.
    fileprivate func socket(for address: UnsafePointer<curl_sockaddr>) -> curl_socket_t {
        guard let target = SocketAddress(address) else { return refuse("the address is neither IPv4 nor IPv6") }
        if let reason = refuses(target.address, target.port) { return refuse(reason) }
        let (family, kind) = (address.pointee.family, address.pointee.socktype)
        guard let socket = openSockets.open(family, kind, address.pointee.protocol, isShared: request.isToProvider)
        else {
            return refuse("no socket: \(String(cString: strerror(errno)))")
        }
        sockets.append(socket.number)
        return socket.descriptor
    }

    /// Returns the reason why an address is not allowed; nil for an allowed address. The operator is responsible for a
    /// provider's address.
    private func refuses(_ address: IPAddress, _ port: Int) -> String? {
        request.isToProvider ? nil : request.allowed.refuses(address, port: port)
    }

    private func refuse(_ reason: String) -> curl_socket_t {
        problem = reason
        return CURL_SOCKET_BAD
    }

    /// Whether the request may leave on this ready connection. The connection may have been opened for a request with
    /// other rules.
    fileprivate func mayLeave(by way: ConnectionWay) -> Bool {
        if let remote = way.remote {
            problem = refuses(remote.address, remote.port)
        } else if request.isToProvider {
            problem = nil
        } else {
            problem = "the connection's address is not known"
        }
        // The clock is read anew, because the loop may have been busy since its last reading.
        let now = SystemClock.boot.milliseconds
        isLate = request.handOverBefore.map { $0 <= now } ?? false
        guard problem == nil, !isLate else { return false }
        wasHandedOver = true
        handedOver = (way, now)
        return true
    }

    /// Returns false when the headers are too long.
    fileprivate func takeHeader(_ count: Int) -> Bool {
        headerBytes += count
        return headerBytes <= Self.mostHeaderBytes
    }

    /// Returns false when the body is longer than wanted.
    fileprivate func takeBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let room = max(0, request.mostAnswer - body.count)
        body += bytes.prefix(room)
        isCut = bytes.count > room
        return !isCut
    }

    // MARK: The end

    /// The latest end of the transfer, enforced by the loop regardless of curl; curl itself ends transfers that wait
    /// for no other connection.
    var end: Int64 { request.isToProvider ? start + request.timeout : .max }

    /// Whether a connection was opened for this transfer.
    var hadNewConnection: Bool { !sockets.isEmpty }

    /// Whether no connection of this transfer is open: curl closes an HTTP/1 connection together with a request that
    /// does not leave.
    var hasLostConnection: Bool { !sockets.contains(where: openSockets.isOpen) }

    /// Returns the outcome of a transfer that curl has ended with `code`.
    func outcome(_ code: CURLcode) -> HTTPAnswer.Outcome {
        if code == CURLE_ABORTED_BY_CALLBACK, isLate, problem == nil {
            // curl was about to resend the request on another connection.
            return wasHandedOver ? .failed(reason: "the connection was lost", wasHandedOver: true) : .notHandedOver
        }
        guard code == CURLE_OK || code == CURLE_WRITE_ERROR && isCut else {
            return .failed(reason: reason(code), wasHandedOver: wasHandedOver)
        }
        let status = bellwire_curl_number(handle, CURLINFO_RESPONSE_CODE)
        return .answered(.init(status: status, retryAfter: retryAfter, body: body))
    }

    /// curl reads both forms of the header, a number and a date.
    private var retryAfter: Int? {
        let seconds = bellwire_curl_size(handle, CURLINFO_RETRY_AFTER)
        return seconds > 0 ? min(Int(seconds), HTTPAnswer.Response.longestRetryAfter) : nil
    }

    /// The reason in the sender's own words, because curl's longer texts may repeat sent or received data.
    private func reason(_ code: CURLcode) -> String {
        switch code {
        case CURLE_ABORTED_BY_CALLBACK: return problem ?? "not allowed"
        case CURLE_COULDNT_CONNECT where sockets.isEmpty: return problem ?? "no address to connect to"
        case CURLE_COULDNT_CONNECT: return "no connection: \(systemReason)"
        case CURLE_COULDNT_RESOLVE_HOST: return "the host's name was not found"
        case CURLE_OPERATION_TIMEDOUT:
            return "\(wasHandedOver ? "no whole answer" : "no connection") within \(request.timeout) ms"
        case CURLE_PEER_FAILED_VERIFICATION: return "the certificate is not to be trusted: \(certificateReason)"
        case CURLE_SSL_CONNECT_ERROR: return "TLS was not agreed on"
        case CURLE_GOT_NOTHING: return "the connection ended without an answer"
        case CURLE_WRITE_ERROR: return "the answer has more than \(Self.mostHeaderBytes) bytes of headers"
        default: return String(cString: curl_easy_strerror(code))
        }
    }

    private var systemReason: String {
        let code = bellwire_curl_number(handle, CURLINFO_OS_ERRNO)
        return code == 0 ? "refused or lost" : String(cString: strerror(Int32(truncatingIfNeeded: code)))
    }

    private var certificateReason: String {
        CurlLibrary.certificateReason(bellwire_curl_number(handle, CURLINFO_SSL_VERIFYRESULT))
            ?? "the certificate is for another host"
    }
}

// C callbacks are file-private functions, because a closure would inherit the actor isolation of its context. curl
// makes the calls on the sender's thread, inside `perform`.

private func transfer(_ context: UnsafeMutableRawPointer?) -> Transfer {
    guard let context else { preconditionFailure("curl always passes the context") }
    return Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
}

private func openSocket(
    _ context: UnsafeMutableRawPointer?, _: curlsocktype, _ address: UnsafeMutablePointer<curl_sockaddr>?
) -> curl_socket_t {
    guard let address else { return CURL_SOCKET_BAD }
    return transfer(context).socket(for: address)
}

private func closeSocket(_ context: UnsafeMutableRawPointer?, _ descriptor: curl_socket_t) -> Int32 {
    guard let context else { preconditionFailure("curl always passes the context") }
    return Unmanaged<OpenSockets>.fromOpaque(context).takeUnretainedValue().close(descriptor)
}

private func beforeRequest(
    _ context: UnsafeMutableRawPointer?, _ address: UnsafeMutablePointer<CChar>?,
    _ localAddress: UnsafeMutablePointer<CChar>?, _ port: Int32, _ localPort: Int32
) -> Int32 {
    func end(_ address: UnsafeMutablePointer<CChar>?, _ port: Int32) -> SocketAddress? {
        address.flatMap { SocketAddress(String(cString: $0), port: Int(port)) }
    }
    let way = ConnectionWay(local: end(localAddress, localPort), remote: end(address, port))
    return transfer(context).mayLeave(by: way) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}

/// A result smaller than the number of bytes ends the transfer.
private func receiveHeader(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    transfer(context).takeHeader(size * count) ? size * count : 0
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let bytes, size * count > 0 else { return 0 }
    return transfer(context).takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
}
