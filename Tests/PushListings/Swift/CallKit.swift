/// What docs/push.md uses of Apple's CallKit, for machines without it. The provider keeps what the screen would show.
@_exported import Foundation

public final class CXHandle: NSObject {
    public enum HandleType: Int { case generic = 1, phoneNumber, emailAddress }
    public let value: String
    public init(type: HandleType, value: String) { self.value = value }
}

public final class CXCallUpdate: NSObject {
    public var remoteHandle: CXHandle?
    public var localizedCallerName: String?
    public var hasVideo = false
    public override init() {}
}

public final class CXProviderConfiguration: NSObject {
    public var supportsVideo = false
    public var supportedHandleTypes: Set<CXHandle.HandleType> = []
    public override init() {}
}

public enum CXCallEndedReason: Int { case failed = 1, remoteEnded, unanswered, answeredElsewhere, declinedElsewhere }

public struct CXErrorCodeIncomingCallError: Error {
    public enum Code: Int {
        case unknown, unentitled, callUUIDAlreadyExists, filteredByDoNotDisturb, filteredByBlockList
    }
    public let code: Code
    public init(_ code: Code) { self.code = code }
}

open class CXCallAction: NSObject {
    public enum Outcome { case open, fulfilled, failed }
    public let callUUID: UUID
    public private(set) var outcome = Outcome.open
    public init(call: UUID) { callUUID = call }
    public func fulfill() { outcome = .fulfilled }
    public func fail() { outcome = .failed }
}

public final class CXAnswerCallAction: CXCallAction {}
public final class CXEndCallAction: CXCallAction {}

public protocol CXProviderDelegate: AnyObject {
    func providerDidReset(_ provider: CXProvider)
    func provider(_ provider: CXProvider, perform action: CXAnswerCallAction)
    func provider(_ provider: CXProvider, perform action: CXEndCallAction)
}

public final class CXProvider: NSObject {
    /// The one that the app has made.
    nonisolated(unsafe) public static var made: CXProvider!
    public private(set) weak var delegate: CXProviderDelegate?
    /// What is shown: true once it was answered.
    public var calls: [UUID: Bool] = [:]
    public private(set) var ended: [CXCallEndedReason] = []
    /// What the next report is refused with.
    public var refusal: CXErrorCodeIncomingCallError?

    public init(configuration: CXProviderConfiguration) {
        super.init()
        Self.made = self
    }

    public func setDelegate(_ delegate: CXProviderDelegate?, queue: DispatchQueue?) { self.delegate = delegate }

    public func reportNewIncomingCall(
        with id: UUID, update: CXCallUpdate, completion: @escaping @Sendable (Error?) -> Void
    ) {
        let refusal = calls[id] != nil ? CXErrorCodeIncomingCallError(.callUUIDAlreadyExists) : refusal
        self.refusal = nil
        if refusal == nil { calls[id] = false }
        DispatchQueue.main.async { completion(refusal) }
    }

    public func reportCall(with id: UUID, endedAt: Date?, reason: CXCallEndedReason) {
        calls[id] = nil
        ended.append(reason)
    }
}
