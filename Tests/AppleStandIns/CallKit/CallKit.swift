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

public struct CXErrorCodeRequestTransactionError: Error {
    public enum Code: Int, Sendable {
        case unknown, unentitled, unknownCallProvider, emptyTransaction, unknownCallUUID, callUUIDAlreadyExists
        case invalidAction, maximumCallGroupsReached
    }
    public let code: Code
    public init(_ code: Code) { self.code = code }
}

open class CXAction: NSObject {
    public enum Outcome { case open, fulfilled, failed }
    public private(set) var outcome = Outcome.open
    /// Called when the action ends, for the provider that performs the action.
    fileprivate var hasEnded: (Outcome) -> Void = { _ in }
    public func fulfill() { end(.fulfilled) }
    public func fail() { end(.failed) }

    private func end(_ outcome: Outcome) {
        precondition(self.outcome == .open, "an action ends once")
        self.outcome = outcome
        hasEnded(outcome)
    }
}

open class CXCallAction: CXAction {
    public let callUUID: UUID
    public init(call: UUID) { callUUID = call }
}

public final class CXAnswerCallAction: CXCallAction {}
public final class CXEndCallAction: CXCallAction {}

public final class CXStartCallAction: CXCallAction {
    public let handle: CXHandle
    public var isVideo = false
    public init(call: UUID, handle: CXHandle) {
        self.handle = handle
        super.init(call: call)
    }
}

public final class CXSetMutedCallAction: CXCallAction {
    public let isMuted: Bool
    public init(call: UUID, muted: Bool) {
        isMuted = muted
        super.init(call: call)
    }
}

public protocol CXProviderDelegate: AnyObject {
    func providerDidReset(_ provider: CXProvider)
    func provider(_ provider: CXProvider, perform action: CXStartCallAction)
    func provider(_ provider: CXProvider, perform action: CXAnswerCallAction)
    func provider(_ provider: CXProvider, perform action: CXEndCallAction)
    func provider(_ provider: CXProvider, perform action: CXSetMutedCallAction)
    func provider(_ provider: CXProvider, timedOutPerforming action: CXAction)
    func provider(_ provider: CXProvider, didActivate audioSession: AVAudioSession)
    func provider(_ provider: CXProvider, didDeactivate audioSession: AVAudioSession)
}

extension CXProviderDelegate {
    /// CallKit fails an action that the delegate has no method for.
    public func provider(_ provider: CXProvider, perform action: CXStartCallAction) { action.fail() }
}

public final class CXProvider: NSObject {
    /// The provider that was made last, for tests.
    nonisolated(unsafe) public static weak var made: CXProvider?
    public private(set) weak var delegate: (any CXProviderDelegate)?
    /// The calls that the screen shows.
    public private(set) var calls: [UUID: CXCallUpdate] = [:]
    /// The calls that the screen shows as answered, or as made by the user. The app has the audio session while there
    /// is such a call.
    public private(set) var answered: Set<UUID> = []
    /// All reports and ends, in order.
    public private(set) var told: [String] = []
    /// The error of the next report, for tests.
    public var refusal: CXErrorCodeIncomingCallError?
    /// The error of the next transaction that the app requests, for tests.
    public var transactionRefusal: CXErrorCodeRequestTransactionError?
    private var hasAudio = false
    private var isValid = true

    public init(configuration: CXProviderConfiguration) {
        super.init()
        Self.made = self
    }

    /// Ends all calls of the provider, for good.
    public func invalidate() {
        isValid = false
        for id in Array(calls.keys) { remove(id) }
        told.append("invalidate")
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

    public func reportCall(with id: UUID, updated update: CXCallUpdate) {
        if calls[id] != nil { calls[id] = update }
    }

    public func reportOutgoingCall(with id: UUID, startedConnectingAt: Date?) { told.append("connecting") }

    public func reportOutgoingCall(with id: UUID, connectedAt: Date?) { told.append("connected") }

    public func reportCall(with id: UUID, endedAt: Date?, reason: CXCallEndedReason) {
        remove(id)
        told.append("end \(reason)")
    }

    /// The user presses a button of the screen, for tests.
    public func press<Action: CXCallAction>(_ action: Action) -> Action {
        play(CXTransaction(action: action))
        return action
    }

    /// Hands the actions to the delegate, each before the earlier action has ended.
    public func play(_ transaction: CXTransaction) {
        for action in transaction.actions { perform(action) }
    }

    private func perform(_ action: CXAction) {
        switch action {
        case let action as CXAnswerCallAction:
            action.hasEnded = { [weak self] in self?.showed(action.callUUID, $0) }
            delegate?.provider(self, perform: action)
        case let action as CXStartCallAction:
            calls[action.callUUID] = CXCallUpdate()
            told.append("start \(action.handle.value)")
            action.hasEnded = { [weak self] in self?.showed(action.callUUID, $0) }
            delegate?.provider(self, perform: action)
        case let action as CXEndCallAction:
            delegate?.provider(self, perform: action)
            remove(action.callUUID)
        case let action as CXSetMutedCallAction: delegate?.provider(self, perform: action)
        default: break
        }
    }

    /// An action that answers or starts a call has ended: a call whose action failed is over.
    private func showed(_ id: UUID, _ outcome: CXAction.Outcome) {
        guard outcome == .fulfilled, calls[id] != nil else { return remove(id) }
        answered.insert(id)
        handOverAudio()
    }

    private func remove(_ id: UUID) {
        calls[id] = nil
        answered.remove(id)
        handOverAudio()
    }

    private func handOverAudio() {
        guard hasAudio == answered.isEmpty else { return }
        hasAudio.toggle()
        nonisolated(unsafe) let provider = self
        let isActive = hasAudio
        DispatchQueue.main.async {
            let session = AVAudioSession()
            if isActive {
                provider.delegate?.provider(provider, didActivate: session)
            } else {
                provider.delegate?.provider(provider, didDeactivate: session)
            }
        }
    }

    /// Why CallKit does not perform the actions; nil when it does.
    fileprivate func refusal(of transaction: CXTransaction) -> CXErrorCodeRequestTransactionError? {
        defer { transactionRefusal = nil }
        if let transactionRefusal { return transactionRefusal }
        if !isValid { return CXErrorCodeRequestTransactionError(.unknownCallProvider) }
        for case let action as CXCallAction in transaction.actions {
            let isKnown = calls[action.callUUID] != nil
            if action is CXStartCallAction {
                if isKnown { return CXErrorCodeRequestTransactionError(.callUUIDAlreadyExists) }
            } else if !isKnown {
                return CXErrorCodeRequestTransactionError(.unknownCallUUID)
            }
        }
        return nil
    }
}

public final class CXTransaction: NSObject {
    public let actions: [CXAction]
    public init(actions: [CXAction]) { self.actions = actions }
    public convenience init(action: CXAction) { self.init(actions: [action]) }
}

public final class CXCallController: NSObject {
    override public init() {}

    /// CallKit lives in another process: the actions, and the answer, come later.
    public func request(_ transaction: CXTransaction, completion: @escaping @Sendable ((any Error)?) -> Void) {
        nonisolated(unsafe) let transaction = transaction
        nonisolated(unsafe) let provider = CXProvider.made
        DispatchQueue.main.async {
            let error = provider.flatMap { $0.refusal(of: transaction) }
            completion(error)
            if error == nil { provider?.play(transaction) }
        }
    }
}
