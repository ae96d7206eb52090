import Glibc
import Testing

@testable import HTTPServing

/// The places of connections, without a server.
struct ConnectionPlacesTests {
    private func connection(_ number: Int) -> ConnectionHandle {
        ConnectionHandle(pointer: OpaquePointer(bitPattern: number + 1)!)
    }

    /// After any order of steps, the first connection of the queue is the connection that was appended longest ago.
    @Test func aQueueIsInTheOrderOfWhatWasAppended() {
        var queue = ConnectionQueue()
        var expected: [Int] = []
        for _ in 0..<5_000 {
            let number = Int.random(in: 0..<20)
            expected.removeAll { $0 == number }
            if Bool.random() {
                queue.append(connection(number))
                expected.append(number)
            } else {
                queue.remove(connection(number))
            }
            #expect(queue.first == expected.first.map(connection))
            #expect(queue.contains(connection(number)) == expected.contains(number))
        }
    }

    /// A connection that is shut down is not closed at once, and a burst must not empty the table.
    @Test func soManyGiveWayAtATime() {
        var places = ConnectionPlaces(.with { $0.mostConnections = 1_000 })
        for number in 0..<1_000 {
            #expect(places.admit(nil).isAdmitted)
            places.opened(connection(number))
        }
        for number in 0..<ConnectionPlaces.mostLeaving {
            let (isAdmitted, givingWay) = places.admit(nil)
            #expect(isAdmitted && givingWay == [connection(number)])
            places.opened(connection(1_000 + number))
        }
        #expect(!places.admit(nil).isAdmitted)
        places.closed(connection(0))
        #expect(places.admit(nil).isAdmitted)
    }

    @Test func addressesAreCountedApart() throws {
        let (first, second) = (ClientAddress([10, 0, 0, 1]), ClientAddress([10, 0, 0, 2]))
        var places = ConnectionPlaces(.with { $0.mostPerAddress = 1 })
        for (number, address) in [first, second].enumerated() {
            #expect(places.admit(address) == (true, []))
            places.opened(connection(number))
        }
        places.works(connection(0))
        // The only connection of this address is busy; the connection of the other address does not give way.
        #expect(places.admit(first) == (false, []))
        #expect(places.admit(second) == (true, [connection(1)]))
        places.opened(connection(2))
        places.closed(connection(0))
        #expect(places.admit(first) == (true, []))
    }

    /// A connection that was shut down, and is not closed yet, keeps no newcomer of its address out.
    @Test func whatLeavesCountsNoMoreWithItsAddress() {
        let address = ClientAddress([10, 0, 0, 1])
        var places = ConnectionPlaces(.with { $0.mostPerAddress = 2 })
        for number in 0..<2 {
            #expect(places.admit(address) == (true, []))
            places.opened(connection(number))
            places.leave(connection(number), isBounded: false)
        }
        for number in 2..<4 {
            #expect(places.admit(address) == (true, []))
            places.opened(connection(number))
        }
        for number in 0..<2 { places.closed(connection(number)) }
        places.works(connection(2))
        places.works(connection(3))
        #expect(places.admit(address) == (false, []), "and those that have a request count")
    }

    @Test func anAddressOfIPv6IsThatOfANetwork() throws {
        func address(_ text: String) throws -> ClientAddress {
            var storage = sockaddr_in6()
            storage.sin6_family = sa_family_t(AF_INET6)
            try #require(inet_pton(AF_INET6, text, &storage.sin6_addr) == 1)
            return try withUnsafePointer(to: &storage) {
                try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { try #require(ClientAddress($0)) }
            }
        }
        #expect(try address("2001:db8::1") == address("2001:db8::ffff:1"))
        #expect(try address("2001:db8::1") != address("2001:db8:0:1::1"))
        #expect(try address("::ffff:10.0.0.1") == ClientAddress([10, 0, 0, 1]))
        #expect(try address("::ffff:10.0.0.1") != address("::ffff:10.0.0.2"))
    }
}
