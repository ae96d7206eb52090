import CallCore
import SignalingProtocol

/// Something that happened to a call. Requests, acks, presence and deadlines all take the same path: gather, decide, commit, tell.
package enum CallEvent {
    case request(ReceivedRequest)
    case signal(ReceivedSignal)
    case ack(DeviceAddress, revision: Int)
    case heartbeat(DeviceAddress)
    case cameOnline(DeviceAddress)
    case wentOffline(DeviceAddress, PresenceMessage.OfflineReason)
    case deadline

    /// The device whose message it is.
    package var sender: DeviceAddress? {
        switch self {
        case .request(let received): received.device
        case .signal(let received): received.device
        case .ack(let device, _), .heartbeat(let device): device
        case .cameOnline, .wentOffline, .deadline: nil
        }
    }

    /// The device that came online.
    package var arrived: DeviceAddress? {
        if case .cameOnline(let device) = self { device } else { nil }
    }
}

/// Something that happened to a peer message.
package enum MessageEvent {
    case send(ReceivedRequest, Request.Message)
    case ack(DeviceAddress)
    /// A device of the recipient came online.
    case cameOnline(DeviceAddress)
    case deadline
    /// The broker has the receipt.
    case receiptSent
}

/// A request with where its response goes.
package struct ReceivedRequest {
    package let device: DeviceAddress
    package let request: Request
    package let correlationData: [UInt8]?

    package init(device: DeviceAddress, request: Request, correlationData: [UInt8]?) {
        self.device = device
        self.request = request
        self.correlationData = correlationData
    }

    package var key: RequestKey { RequestKey(device: device, requestID: request.id) }
}

/// A `call.signal`; without id it has no response.
package struct ReceivedSignal {
    package let device: DeviceAddress
    package let id: RequestID?
    package let signal: Request.Signal
    package let correlationData: [UInt8]?

    package init(device: DeviceAddress, id: RequestID?, signal: Request.Signal, correlationData: [UInt8]?) {
        self.device = device
        self.id = id
        self.signal = signal
        self.correlationData = correlationData
    }

    /// Of the response alone: signals are not remembered.
    var key: RequestKey { RequestKey(device: device, requestID: id ?? RequestID("-")!) }
}

/// What happened to one call or message, in the order in which it came.
package struct Work<ID: Hashable, Event> {
    package let id: ID
    package var events: [Event]

    package init(id: ID, events: [Event]) {
        self.id = id
        self.events = events
    }
}

package typealias CallWork = Work<CallID, CallEvent>
package typealias MessageWork = Work<RecordID, MessageEvent>

/// Works, one for each id, in the order in which something first happened to them.
package struct WorkList<ID: Hashable, Event> {
    package private(set) var works: [Work<ID, Event>] = []
    private var places: [ID: Int] = [:]

    package init() {}

    package mutating func append(_ event: Event, to id: ID) {
        if let place = places[id] {
            works[place].events.append(event)
        } else {
            places[id] = works.count
            works.append(Work(id: id, events: [event]))
        }
    }
}
