import Glibc
import ServerURL

/// The address at which a TCP connection to the broker comes about in time; nil if there is none, and `errno` tells why.
func reachableAddress(of broker: BrokerAddress, within milliseconds: Int32) -> String? {
    errno = EHOSTUNREACH
    return NameLookup.addresses(of: broker.host, within: Int(milliseconds)).first { host in
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICHOST
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(broker.port), &hints, &found) == 0, let address = found?.pointee else {
            return false
        }
        defer { freeaddrinfo(found) }
        return connects(address, within: milliseconds)
    }
}

private func connects(_ address: addrinfo, within milliseconds: Int32) -> Bool {
    let descriptor = socket(address.ai_family, address.ai_socktype | Int32(SOCK_NONBLOCK.rawValue), address.ai_protocol)
    guard descriptor >= 0 else { return false }
    defer {
        let reason = errno
        close(descriptor)
        errno = reason
    }
    if Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 { return true }
    guard errno == EINPROGRESS else { return false }
    var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    guard Glibc.poll(&waiting, 1, milliseconds) > 0 else {
        errno = ETIMEDOUT
        return false
    }
    var failure: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &length)
    errno = failure
    return failure == 0
}
