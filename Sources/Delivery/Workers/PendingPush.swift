import CallCore
import SignalingProtocol

/// A push from the moment when it was found due until it is sent or given up.
struct PendingPush {
    /// How far the push has come on its way to the provider. The order of the cases is the order of the steps.
    enum Step: Comparable {
        case found
        /// The push counts against its device's limits, unless its kind is unlimited; further attempts do not count.
        case reserved
        /// The push is noted as `trying`, or about to be.
        case noted
        /// The sender has the push.
        case underWay
    }

    /// The end of the push, by the store's clock.
    let expiresAt: Milliseconds
    /// The token or subscription of the push (`PushRegistration.mark`).
    let target: String
    var step = Step.found
    /// Whether the provider may have received the push without saying so.
    var mayHaveArrived = false
    var failures = 0
    /// How often the sender gave the push back, because the push would have left too late.
    var givenBack = 0
    /// The earliest time of the next attempt, by the boot clock.
    var notBefore: Int64 = 0
    var hasNewToken = false
    /// The slot that the attempt occupies in `PushSlots`.
    var slot: PushProvider?

    init(_ push: DuePush) {
        expiresAt = push.expiresAt
        target = push.registration.mark
    }

    var isUnderWay: Bool { step == .underWay }
    var isUnsent: Bool { step == .noted && !mayHaveArrived }

    /// Returns the delay after so many failures, in milliseconds.
    static func delay(afterFailures failures: Int) -> Int64 {
        let delays: [Int64] = [200, 500, 1_000, 2_000, 4_000, 8_000]
        return failures <= delays.count ? delays[max(0, failures - 1)] : 10_000
    }
}
