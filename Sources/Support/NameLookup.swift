import Glibc
import Synchronization

/// A lookup of a host name that keeps the caller waiting no longer than the caller allows. The system's resolver may
/// take many seconds when a name server does not answer, and a coordinator has a single thread for all its work.
package final class NameLookup: Sendable {
    private struct State {
        var addresses: [String] = []
        var isLooking = false
        /// The number of lookups that have ended, with or without a result.
        var finished = 0
    }

    private let host: String
    private let state = Mutex(State())

    /// The lookups of this process by host name: a hanging lookup is not started a second time. A process knows only a
    /// handful of names.
    private static let known = Mutex<[String: NameLookup]>([:])

    private init(host: String) { self.host = host }

    /// Returns the numeric addresses of `host`, in the order in which a caller should try them. When the lookup takes
    /// longer than `milliseconds`, the addresses of the previous lookup are returned, and the running lookup continues
    /// for the next call. The result is empty as long as no lookup has found an address.
    package static func addresses(of host: String, within milliseconds: Int) -> [String] {
        if isNumeric(host) { return [host] }
        let lookup = known.withLock { known in
            let lookup = known[host] ?? NameLookup(host: host)
            known[host] = lookup
            return lookup
        }
        return lookup.addresses(within: milliseconds)
    }

    private func addresses(within milliseconds: Int) -> [String] {
        let (finished, mustStart) = state.withLock { state in
            defer { state.isLooking = true }
            return (state.finished, !state.isLooking)
        }
        if mustStart { start() }
        for _ in 0..<max(1, milliseconds / Self.step) {
            let current = state.withLock { $0 }
            if current.finished > finished { return current.addresses }
            usleep(UInt32(Self.step) * 1000)
        }
        return state.withLock { $0.addresses }
    }

    /// The interval, in milliseconds, at which a waiting caller checks for the result of the lookup thread.
    private static let step = 2

    private func start() {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self).toOpaque()
        let code = pthread_create(
            &thread, nil,
            { context in
                Unmanaged<NameLookup>.fromOpaque(context!).takeRetainedValue().run()
                return nil
            }, context)
        guard code == 0 else {
            Unmanaged<NameLookup>.fromOpaque(context).release()
            return finish([])
        }
        pthread_detach(thread)
    }

    private func run() {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &found) == 0 else { return finish([]) }
        defer { freeaddrinfo(found) }
        var addresses: [String] = []
        var next = found
        while let entry = next?.pointee {
            if let address = Self.numeric(entry), !addresses.contains(address) { addresses.append(address) }
            next = entry.ai_next
        }
        finish(addresses)
    }

    private static func numeric(_ entry: addrinfo) -> String? {
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let length = socklen_t(text.count)
        guard getnameinfo(entry.ai_addr, entry.ai_addrlen, &text, length, nil, 0, NI_NUMERICHOST) == 0 else {
            return nil
        }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Ends a lookup. A name that is not found now keeps its last addresses, because its server may only be restarting.
    private func finish(_ addresses: [String]) {
        state.withLock { state in
            if !addresses.isEmpty { state.addresses = addresses }
            state.isLooking = false
            state.finished += 1
        }
    }

    private static func isNumeric(_ host: String) -> Bool {
        var v4 = in_addr()
        var v6 = in6_addr()
        return inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1
    }
}
