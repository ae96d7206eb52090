@_exported import AVFoundation
@_exported import Dispatch
@_exported import Foundation

// A stand-in for the part of Apple's CallKit that BellwireCallKit uses. The provider keeps what the screen would show.

public final class CXHandle: NSObject {
    public enum HandleType: Int { case generic = 1, phoneNumber, emailAddress }
    public let value: String
    public init(type: HandleType, value: String) { self.value = value }
}

public final class CXCallUpdate: NSObject {
    public var remoteHandle: CXHandle?
    public var localizedCallerName: String?
    public var hasVideo = false
    public var supportsHolding = true
    public var supportsGrouping = true
    public var supportsUngrouping = true
    public var supportsDTMF = true
    override public init() {}
}

public final class CXProviderConfiguration: NSObject {
    public var supportsVideo = false
    public var supportedHandleTypes: Set<CXHandle.HandleType> = []
    public var maximumCallsPerCallGroup = 5
    override public init() {}
}

public enum CXCallEndedReason: Int, Sendable {
    case failed = 1
    case remoteEnded, unanswered, answeredElsewhere, declinedElsewhere
}

public struct CXErrorCodeIncomingCallError: Error {
    public enum Code: Int, Sendable {
        case unknown, unentitled, callUUIDAlreadyExists, filteredByDoNotDisturb, filteredByBlockList
    }
    public let code: Code
    public init(_ code: Code) { self.code = code }
}

open class CXAction: NSObject {
    public enum Outcome { case open, fulfilled, failed }
    public private(set) var outcome = Outcome.open
    public func fulfill() { end(.fulfilled) }
    public func fail() { end(.failed) }

    private func end(_ outcome: Outcome) {
        precondition(self.outcome == .open, "an action ends once")
        self.outcome = outcome
    }
}

open class CXCallAction: CXAction {
    public let callUUID: UUID
    public init(call: UUID) { callUUID = call }
}

public final class CXAnswerCallAction: CXCallAction {}
public final class CXEndCallAction: CXCallAction {}

public final class CXSetMutedCallAction: CXCallAction {
    public let isMuted: Bool
    public init(call: UUID, muted: Bool) {
        isMuted = muted
        super.init(call: call)
    }
}

public protocol CXProviderDelegate: AnyObject {
    func providerDidReset(_ provider: CXProvider)
    func provider(_ provider: CXProvider, perform action: CXAnswerCallAction)
    func provider(_ provider: CXProvider, perform action: CXEndCallAction)
    func provider(_ provider: CXProvider, perform action: CXSetMutedCallAction)
    func provider(_ provider: CXProvider, timedOutPerforming action: CXAction)
    func provider(_ provider: CXProvider, didActivate audioSession: AVAudioSession)
    func provider(_ provider: CXProvider, didDeactivate audioSession: AVAudioSession)
}

public final class CXProvider: NSObject {
    /// The provider that was made last, for tests.
    nonisolated(unsafe) public static weak var made: CXProvider?
    public private(set) weak var delegate: (any CXProviderDelegate)?
    /// The calls that the screen shows.
    public private(set) var calls: [UUID: CXCallUpdate] = [:]
    /// All reports and ends, in order.
    public private(set) var told: [String] = []
    /// The error of the next report, for tests.
    public var refusal: CXErrorCodeIncomingCallError?

    public init(configuration: CXProviderConfiguration) {
        super.init()
        Self.made = self
    }

    public func setDelegate(_ delegate: (any CXProviderDelegate)?, queue: DispatchQueue?) { self.delegate = delegate }

    public func reportNewIncomingCall(
        with id: UUID, update: CXCallUpdate, completion: @escaping @Sendable ((any Error)?) -> Void
    ) {
        let error = calls[id] != nil ? CXErrorCodeIncomingCallError(.callUUIDAlreadyExists) : refusal
        refusal = nil
        if error == nil { calls[id] = update }
        told.append("report \(update.localizedCallerName ?? "nobody")\(error.map { " \($0.code)" } ?? "")")
        DispatchQueue.main.async { completion(error) }
    }

    public func reportCall(with id: UUID, endedAt: Date?, reason: CXCallEndedReason) {
        calls[id] = nil
        told.append("end \(reason)")
    }

    /// The user presses a button of the screen, for tests.
    public func press<Action: CXCallAction>(_ action: Action) -> Action {
        if let action = action as? CXAnswerCallAction { delegate?.provider(self, perform: action) }
        if let action = action as? CXEndCallAction {
            delegate?.provider(self, perform: action)
            calls[action.callUUID] = nil
        }
        return action
    }
}

public final class CXTransaction: NSObject {
    public let actions: [CXAction]
    public init(action: CXAction) { actions = [action] }
}

public final class CXCallController: NSObject {
    override public init() {}

    public func request(_ transaction: CXTransaction, completion: @escaping @Sendable ((any Error)?) -> Void) {
        for action in transaction.actions {
            if let action = action as? CXCallAction { _ = CXProvider.made?.press(action) }
        }
        completion(nil)
    }
}
