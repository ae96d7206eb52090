import Glibc

/// Whether a TCP connection to the broker comes about in time; `errno` tells why not.
func isReachable(_ broker: BrokerAddress, within milliseconds: Int32) -> Bool {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(broker.host, String(broker.port), &hints, &found) == 0 else {
        errno = EHOSTUNREACH
        return false
    }
    defer { freeaddrinfo(found) }
    var next = found
    while let address = next?.pointee {
        if connects(address, within: milliseconds) { return true }
        next = address.ai_next
    }
    return false
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
