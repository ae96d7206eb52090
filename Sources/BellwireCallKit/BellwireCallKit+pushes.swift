#if !os(macOS) && !os(tvOS)
    public import BellwireClient
    import CallKit
    import Foundation
    public import PushKit

    extension BellwireCallKit {
        /// Ends the object's work before the user logs out, so that this iPhone rings for the user no more: leaves the
        /// calls that were answered or made here, ends CallKit's provider and the VoIP pushes of iOS, and ends all
        /// registrations of this device at the service. A call that rings goes on to ring at the user's other devices.
        /// The client stays connected until the app calls `disconnect`. For the next user the app makes another object.
        ///
        /// - Throws: the errors of `SignalingClient.unregisterPush`, such as `noResponse` without a network, after 10 s
        ///   at most. The object has ended then as well. The iPhone gets no more VoIP pushes, since iOS has ended their
        ///   token; other registrations of this device stay until another call of this method, before `disconnect`,
        ///   ends them.
        public func stop() async throws(SignalingError) {
            if !isStopped {
                isStopped = true
                token = nil
                registry.desiredPushTypes = []
                for follower in followers { follower.cancel() }
                leaveCalls()
                await departed()
                provider.invalidate()
            }
            // The network may be back before the client's next attempt to connect.
            client.networkChanged()
            try await client.unregisterPush(within: .seconds(5))
        }

        func registerToken() async {
            guard let token, !isStopped else { return }
            do throws(SignalingError) {
                try await client.registerPush(.apnsVoIP, .token(token), app: app)
                onPushRegistration?(nil)
            } catch {
                onPushRegistration?(error)
            }
        }
    }

    extension BellwireCallKit: @preconcurrency PKPushRegistryDelegate {
        public func pushRegistry(
            _ registry: PKPushRegistry, didUpdate credentials: PKPushCredentials, for type: PKPushType
        ) {
            guard !isStopped else { return }
            token = credentials.token.map { String(format: "%02x", $0) }.joined()
            Task { await registerToken() }
        }

        public func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType) {
            token = nil
            let (client, app) = (client, app)
            // A registration that stays is void: Apple refuses the token, and the service removes the registration
            // then.
            Task { try? await client.unregisterPush(.apnsVoIP, app: app) }
        }

        public func pushRegistry(
            _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload, for type: PKPushType,
            completion: @escaping () -> Void
        ) {
            // Before this method returns: iOS ends an app that gets such a push and reports no call.
            let content = PushContent(payload: payload.dictionaryPayload)
            let id = content.map { UUID(callID: $0.callID) } ?? UUID()
            handle(.pushed(isStopped ? nil : content, id))
            // A push may come after this device has accepted the call.
            if let call = known[id], isRunning(call) { tellRunning(call, id) }
            completion()
        }
    }
#endif
