import SignalingProtocol

/// Something that happened to a call. Requests, acks, presence and deadlines all take the same path: gather, decide, commit, tell.
package enum CallEvent {
    // What is large stands by itself: works are handed on several times.
    indirect case request(ReceivedRequest)
    indirect case signal(ReceivedSignal)
    case ack(DeviceAddress, revision: Int)
    case heartbeat(DeviceAddress)
    /// `isTold`: its welcome says that the call lives.
    case cameOnline(DeviceAddress, isTold: Bool)
    case wentOffline(DeviceAddress, PresenceMessage.OfflineReason)
    /// A device of the user has registered for pushes.
    case registered(UserID)
    case deadline
    /// The device has acknowledged something: what was held back from it is sent again now (`ResendPacing`).
    case released(DeviceAddress)

    /// The device whose message it is.
    package var sender: DeviceAddress? {
        switch self {
        case .request(let received): received.device
        case .signal(let received): received.device
        case .ack(let device, _), .heartbeat(let device): device
        case .cameOnline, .wentOffline, .registered, .deadline, .released: nil
        }
    }

    /// The device that came online.
    package var arrived: DeviceAddress? {
        if case .cameOnline(let device, _) = self { device } else { nil }
    }
}

/// Something that happened to a peer message.
package enum MessageEvent {
    indirect case send(ReceivedRequest, Request.Message)
    case ack(DeviceAddress)
    /// A device of the recipient came online.
    case cameOnline(DeviceAddress)
    case deadline
    /// A device of the recipient has acknowledged something: the message was held back, and is sent now to one device or, without
    /// a device, to all.
    case released(DeviceAddress?)
    /// The broker has the receipt.
    case receiptSent
}

/// How a request wants to be answered (docs/protocol.md, section 2, MQTT 5).
package struct ReplyPath: Sendable, Equatable {
    /// Correlation Data, which is given back as it came.
    package var correlationData: [UInt8]?
    /// The level below the device's topic on which the response is wanted; nil: on the device's topic itself.
    package var level: String?
    /// False where nobody waits for a response: the service itself asks.
    package var isWanted = true

    package init(correlationData: [UInt8]? = nil, level: String? = nil) {
        self.correlationData = correlationData
        self.level = level
    }
}

/// A request with where its response goes.
package struct ReceivedRequest {
    package let device: DeviceAddress
    package let request: Request
    package let path: ReplyPath

    package init(device: DeviceAddress, request: Request, path: ReplyPath = ReplyPath()) {
        self.device = device
        self.request = request
        self.path = path
    }

    package var key: RequestKey { RequestKey(device: device, requestID: request.id) }
}

/// A `call.signal`; without id it has no response.
package struct ReceivedSignal {
    package let device: DeviceAddress
    package let id: RequestID?
    package let signal: Request.Signal
    package let path: ReplyPath

    package init(device: DeviceAddress, id: RequestID?, signal: Request.Signal, path: ReplyPath = ReplyPath()) {
        self.device = device
        self.id = id
        self.signal = signal
        self.path = path
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
