import CallCore
import CallStore
import SignalingProtocol
import Tokens

/// Serves the registration of devices for pushes (docs/protocol.md, section 7, Registering).
extension BatchService {
    func registerPushes(
        _ request: Request.PushRegister, _ device: DeviceAddress
    ) async throws(StoreError) -> Response.Outcome {
        guard device.deviceID != .server else {
            return .failure(SignalingError(.badRequest, "device: the device id server is for backends"))
        }
        guard request.target.hasPoint else {
            return .failure(SignalingError(.badRequest, "subscription.keys.p256dh: is no point of P-256"))
        }
        if let refusal = try await refusal(of: request) { return .failure(refusal) }
        let registration = PushRegistration(
            PushRegistration.Key(device, request.app, request.platform), target: request.target,
            digest: digest(request.platform.identity(of: request.target)), since: now)
        // The registration is written before `tellCalls`: a call that is committed later finds the registration, and
        // `tellCalls` finds the calls that ring already.
        let registrations = try await store.register(registration)
        try await tellCalls(of: device.userID)
        return answer(registrations)
    }

    private func digest(_ identity: String) -> String { Base64URL.encode(Digest.sha256(Array(identity.utf8))) }

    func unregisterPushes(
        _ request: Request.PushUnregister, _ device: DeviceAddress
    ) async throws(StoreError) -> Response.Outcome {
        answer(try await store.unregister(device, request.platform, request.app))
    }

    private func answer(_ registrations: [PushRegistration]) -> Response.Outcome {
        .answer(
            .registrations(
                registrations.map {
                    RegisteredPush(platform: $0.key.platform, app: $0.key.app, since: $0.since)
                }))
    }

    /// Returns an error for a registration that the deployment does not push, also after its last process with push has
    /// ended. The policy is read again before a refusal, since a process with push may have started a moment ago.
    private func refusal(of request: Request.PushRegister) async throws(StoreError) -> SignalingError? {
        if let policy = served(try await context.pushPolicy()), policy.refusal(of: request) == nil {
            return nil
        }
        guard let policy = served(try await context.readPushPolicy()) else {
            return SignalingError(.badRequest, "platform: this deployment pushes nothing")
        }
        return policy.refusal(of: request)
    }

    private func served(_ kept: KeptPushPolicy?) -> PushPolicy? {
        kept.flatMap { $0.isServed(at: now) ? $0.policy : nil }
    }

    /// Tells the user's live calls of the registration, so that a call that rings at this time is pushed to the device
    /// too.
    private func tellCalls(of user: UserID) async throws(StoreError) {
        let live = try await liveCalls(of: [user], limit: ServiceBounds.callsPerWelcome)[0]
        guard !live.isEmpty else { return }
        let works = live.map { CallWork(id: $0, events: [.registered(user)]) }
        guard await serveCalls(works).isEmpty else {
            throw StoreError(.unsettled, "the registration was not committed to a call of the user")
        }
    }
}

extension PushTarget {
    /// Whether a subscription's key is a point of the curve. Other bytes may have the same form, but cannot be used to
    /// encrypt.
    fileprivate var hasPoint: Bool {
        guard case .subscription(_, let key, _) = self else { return true }
        return Base64URL.decode(key.utf8).map(CurvePoint.isValid) ?? false
    }
}

extension PushPolicy {
    /// Returns nil when the deployment pushes on this platform to devices with this app.
    fileprivate func refusal(of request: Request.PushRegister) -> SignalingError? {
        guard let platforms = apps[request.app] else {
            return SignalingError(.badRequest, "app: this deployment knows no app \(request.app)")
        }
        guard platforms.contains(request.platform) else {
            return SignalingError(
                .badRequest,
                "platform: this deployment does not push by \(request.platform.rawValue) for \(request.app)")
        }
        return nil
    }
}
