import Glibc
import SignalingProtocol

/// Full calls: invite, ring, ack, accept, end. Every message is acked by the protocol (docs/protocol.md, section 5).
///
/// The calls are in advanced mode, since a common call ends with its answer. The invitees accept one after the other,
/// the first invitee after the inviter's phone shows that all invitees ring, so that no two changes coincide. A call of
/// two users with a device each is 14 messages, 7 each way.
struct CallLoad: Load {
    /// The number of members and devices of each call.
    struct Shape {
        /// The number of users in a call, including the inviter.
        var members = 2
        /// The number of online devices of each user. The first device acts for the user.
        var devices = 1
    }

    private enum Stage { case free, ringing, accepting, ending }

    /// A place makes calls one after the other, always with the same users.
    private struct Place {
        var stage = Stage.free
        var serial = 0
        /// The call's id as JSON, with quotes.
        var callID: [UInt8] = []
        var sentAt: Int64 = 0
        /// The highest revision that the inviter's phone has received.
        var revision = 0
        var hasRung = false
        var accepted = 0
        /// The number of invitees that were told the end of the call.
        var told = 0
        var hasEndResponse = false
    }

    private struct User {
        let id: UserID
        /// The topics of the user's devices, by device.
        let up: [String]
        let down: [String]
    }

    /// The receiver of the messages of a topic. `device` is nil for the topic that all devices of the user subscribe
    /// to.
    private struct Listener {
        let place: Int
        let user: Int
        let device: Int?
    }

    private let run: String
    private let users: [[User]]
    /// The last part of each place's `call.invite` in JSON, behind the call id: the part that is the same for all calls
    /// of the place.
    private let invites: [String]
    private var listeners: [String: Listener] = [:]
    private var places: [Place]

    /// The latency from a request to its response, for all requests.
    var response = Latencies()
    /// The latency from the invite to the first invitee's phone.
    var inviteToRing = Latencies()
    /// The latency from an accept to the inviter's phone.
    var acceptToKnown = Latencies()

    let filters: [String]
    /// The presence messages of every device. The service answers each message with a `welcome`.
    let presence: [(topic: String, payload: [UInt8])]

    init(places count: Int, run: String, shape: Shape, topics: Topics = .standard) {
        self.run = run
        places = [Place](repeating: Place(), count: count)
        let users = (0..<count).map { place in
            (0..<shape.members).map { number in
                let id = UserID("\(run)-\(place)-\(number)")!
                let devices = (0..<shape.devices).map {
                    DeviceAddress(userID: id, deviceID: DeviceID("phone\($0)")!)
                }
                return User(id: id, up: devices.map(topics.up), down: devices.map(topics.down))
            }
        }
        self.users = users
        invites = users.map { users in
            let invitees = users.dropFirst().map { "\"\($0.id)\"" }.joined(separator: ",")
            return #","mode":"advanced","invitees":[\#(invitees)],"timeout":60}"#
        }
        let online = PresenceMessage(.online, session: run).encoded()
        presence = users.joined().flatMap { user in
            (0..<shape.devices).map { device in
                let address = DeviceAddress(userID: user.id, deviceID: DeviceID("phone\(device)")!)
                return (topics.presence(address), online)
            }
        }
        filters = ["\(topics.root)/down/+", "\(topics.root)/down/+/+"]
        for place in 0..<count {
            for (number, user) in users[place].enumerated() {
                listeners[topics.down(user.id)] = Listener(place: place, user: number, device: nil)
                for device in 0..<shape.devices {
                    listeners[user.down[device]] = Listener(place: place, user: number, device: device)
                }
            }
        }
    }

    mutating func begin(_ place: Int, now: Int64, _ send: (String, [UInt8]) -> Void) {
        let serial = places[place].serial + 1
        let callID = "\"\(run)-\(place)-\(serial)\""
        places[place] = Place(stage: .ringing, serial: serial, callID: Array(callID.utf8), sentAt: now)
        send(
            users[place][0].up[0],
            Array(#"{"type":"call.invite","id":"i\#(serial)","callID":\#(callID)\#(invites[place])"#.utf8))
    }

    mutating func giveUp(_ place: Int) { places[place].stage = .free }

    mutating func received(
        _ topic: String, _ payload: [UInt8], now: Int64, _ send: (String, [UInt8]) -> Void
    ) -> Int? {
        guard let listener = listeners[topic] else { return nil }
        let place = listener.place
        // Late messages of an earlier call are not acked, since a place knows only its present call.
        guard payload.contains(places[place].callID) else { return nil }
        if payload.starts(with: Self.response) {
            if listener.user == 0, places[place].stage == .ending { places[place].hasEndResponse = true }
            response.add(now - places[place].sentAt)
            return finished(place)
        }
        guard payload.starts(with: Self.event), let revision = revision(payload) else { return nil }
        ack(revision.text, listener, send)
        guard listener.device ?? 0 == 0 else { return nil }
        if listener.user == 0 {
            guard payload.starts(with: Self.changed), revision.number > places[place].revision else { return nil }
            places[place].revision = revision.number
            callerSaw(payload, place, now: now, send)
        } else {
            calleeSaw(payload, place, now: now)
        }
        return finished(place)
    }

    private func ack(_ revision: ArraySlice<UInt8>, _ listener: Listener, _ send: (String, [UInt8]) -> Void) {
        let message = Self.ack + places[listener.place].callID + revision + [UInt8(ascii: "}")]
        let up = users[listener.place][listener.user].up
        if let device = listener.device {
            send(up[device], message)
        } else {
            for topic in up { send(topic, message) }
        }
    }

    private mutating func callerSaw(
        _ payload: [UInt8], _ place: Int, now: Int64, _ send: (String, [UInt8]) -> Void
    ) {
        switch places[place].stage {
        case .ringing:
            guard !payload.contains(Self.inviting) else { return }
            places[place].stage = .accepting
        case .accepting:
            guard payload.contains(users[place][places[place].accepted + 1].id) else { return }
            acceptToKnown.add(now - places[place].sentAt)
            places[place].accepted += 1
        case .free, .ending: return
        }
        places[place].sentAt = now
        if places[place].accepted + 1 < users[place].count {
            send(users[place][places[place].accepted + 1].up[0], request("call.accept", "a", place))
        } else {
            places[place].stage = .ending
            send(users[place][0].up[0], request("call.end", "e", place))
        }
    }

    private mutating func calleeSaw(_ payload: [UInt8], _ place: Int, now: Int64) {
        if payload.starts(with: Self.invited), !places[place].hasRung {
            places[place].hasRung = true
            inviteToRing.add(now - places[place].sentAt)
        } else if payload.starts(with: Self.ended), places[place].stage == .ending {
            places[place].told += 1
        }
    }

    /// Frees the place and returns it once its call has ended for every user; otherwise returns nil.
    private mutating func finished(_ place: Int) -> Int? {
        guard places[place].stage == .ending, places[place].hasEndResponse,
            places[place].told == users[place].count - 1
        else { return nil }
        places[place].stage = .free
        return place
    }

    private func request(_ type: String, _ prefix: String, _ place: Int) -> [UInt8] {
        Array("{\"type\":\"\(type)\",\"id\":\"\(prefix)\(places[place].serial)\",\"callID\":".utf8)
            + places[place].callID + [UInt8(ascii: "}")]
    }

    /// Returns `,"revision":N` as in the message, and the number.
    private func revision(_ payload: [UInt8]) -> (text: ArraySlice<UInt8>, number: Int)? {
        guard let found = payload.firstRange(of: Self.revision) else { return nil }
        var number = 0
        var end = found.upperBound
        while end < payload.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(payload[end]) {
            number = number * 10 + Int(payload[end] - UInt8(ascii: "0"))
            end += 1
        }
        return (payload[found.lowerBound..<end], number)
    }

    mutating func forgetLatencies() {
        response.removeAll()
        inviteToRing.removeAll()
        acceptToKnown.removeAll()
    }

    // This version of the service writes the fields in this order.
    private static let response = Array(#"{"type":"response","#.utf8)
    private static let event = Array(#"{"type":"event","#.utf8)
    private static let invited = Array(#"{"type":"event","event":"call.invited","#.utf8)
    private static let changed = Array(#"{"type":"event","event":"call.userStateChanged","#.utf8)
    private static let ended = Array(#"{"type":"event","event":"call.ended","#.utf8)
    private static let inviting = Array(#""state":"inviting""#.utf8)
    private static let revision = Array(#","revision":"#.utf8)
    private static let ack = Array(#"{"type":"ack","callID":"#.utf8)
}

extension [UInt8] {
    fileprivate func contains(_ part: [UInt8]) -> Bool { firstRange(of: part) != nil }

    /// Whether the user is the actor of the change.
    fileprivate func contains(_ user: UserID) -> Bool { contains(Array("\"actor\":\"\(user)\"".utf8)) }

    fileprivate func firstRange(of part: [UInt8]) -> Range<Int>? {
        guard !part.isEmpty, count >= part.count else { return nil }
        return withUnsafeBufferPointer { whole in
            part.withUnsafeBufferPointer { part in
                var start = 0
                while start + part.count <= whole.count,
                    let found = memchr(whole.baseAddress! + start, Int32(part[0]), whole.count - part.count - start + 1)
                {
                    start = UnsafeRawPointer(found) - UnsafeRawPointer(whole.baseAddress!)
                    if memcmp(found, part.baseAddress!, part.count) == 0 { return start..<start + part.count }
                    start += 1
                }
                return nil
            }
        }
    }
}
