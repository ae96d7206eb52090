import SignalingProtocol

/// An event of a call. Requests, acks, presence and deadlines all take the same path: gather, decide, commit, tell.
package enum CallEvent {
    // Large cases are indirect, because work is passed on several times.
    indirect case request(ReceivedRequest)
    indirect case signal(ReceivedSignal)
    case ack(DeviceAddress, revision: Int)
    case heartbeat(DeviceAddress)
    /// A member's device came online. `isTold` says that the device's welcome lists the call as live.
    case cameOnline(DeviceAddress, isTold: Bool)
    /// A member's device went offline. `since` is the time when its broker was last heard, when the device was lost
    /// with its broker.
    case wentOffline(DeviceAddress, PresenceMessage.OfflineReason, since: Milliseconds? = nil)
    /// A device of the user has registered for pushes.
    case registered(UserID)
    case deadline
    /// The device has acknowledged a message, so that deliveries that were held back are resent now (`ResendPacing`).
    case released(DeviceAddress)

    /// The device that sent the message; nil for other events.
    package var sender: DeviceAddress? {
        switch self {
        case .request(let received): received.device
        case .signal(let received): received.device
        case .ack(let device, _), .heartbeat(let device): device
        case .cameOnline, .wentOffline, .registered, .deadline, .released: nil
        }
    }

    /// The device that came online; nil for other events.
    package var arrived: DeviceAddress? {
        if case .cameOnline(let device, _) = self { device } else { nil }
    }
}

/// An event of a peer message.
package enum MessageEvent {
    indirect case send(ReceivedRequest, Request.Message)
    case ack(DeviceAddress)
    /// A device of the recipient came online.
    case cameOnline(DeviceAddress)
    case deadline
    /// A device of the recipient has acknowledged a message, so that this message, which was held back, is sent now: to
    /// the device, or, for nil, to all devices.
    case released(DeviceAddress?)
    /// The broker has the receipt.
    case receiptSent
}

/// The way in which a request wants its response (docs/protocol.md, Where a response goes).
package struct ReplyPath: Sendable, Equatable {
    /// The Correlation Data, which the response returns unchanged.
    package var correlationData: [UInt8]?
    /// The level below the device's topic for the response; nil for the device's topic itself.
    package var level: String?
    /// Whether a response is wanted; false for requests of the service itself.
    package var isWanted = true
    /// The broker from which the request came.
    package var brokers = BrokerSet.all
    /// The request, for the metrics of durations and for spans; nil for requests of the service itself.
    package var origin: RequestOrigin?

    package init(correlationData: [UInt8]? = nil, level: String? = nil, brokers: BrokerSet = .all) {
        self.correlationData = correlationData
        self.level = level
        self.brokers = brokers
    }
}

/// The type of a request, when a coordinator read the request, and the parent that the sender names for its spans.
package struct RequestOrigin: Sendable, Equatable {
    package let type: String
    /// By the boot clock, in microseconds.
    package let readAt: Int64
    package let parent: TraceParent?

    package init(type: String, readAt: Int64, parent: TraceParent? = nil) {
        self.type = type
        self.readAt = readAt
        self.parent = parent
    }
}

/// A request with the path of its response.
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

/// A `call.signal`. Without an id, the signal has no response.
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

    /// The key of the response. The call does not remember signals.
    var key: RequestKey { RequestKey(device: device, requestID: id ?? RequestID("-")!) }
}

/// The queued events of a call (`CallEvent`) or of a peer message (`MessageEvent`), in the order of their arrival.
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
