import Glibc
import SignalingProtocol
import Support
import Synchronization
import Tokens

/// Checks the tokens of HTTP requests: a backend's token with `role: server`, or a user's own token (docs/protocol.md,
/// section 1, Tokens). May be used on any thread.
package final class BearerCheck: Sendable {
    private struct BearerState {
        var verifier: TokenVerifier
        /// How often the keys have changed.
        var generation = 0
        /// Verified tokens. The verification of a signature takes longer than all other work for a request.
        var known: [ByteString: Token] = [:]
        var file: FileMark?
        var nextLook: Int64 = 0
        /// The users whom administrators have disabled.
        var disabled: Set<UserID> = []
    }

    /// Attributes of a file that differ after a change of the file.
    private struct FileMark: Equatable {
        let inode: UInt
        let size: Int
        let seconds: Int
        let nanoseconds: Int

        /// Returns nil when the file does not exist.
        init?(_ path: String) {
            var found = stat()
            guard stat(path, &found) == 0 else { return nil }
            inode = UInt(found.st_ino)
            size = Int(found.st_size)
            seconds = found.st_mtim.tv_sec
            nanoseconds = found.st_mtim.tv_nsec
        }
    }

    private enum BearerBounds {
        static let known = 1_024
        /// The interval, in milliseconds, at which the gateway checks the key file. After such a check, tokens of a
        /// removed key are refused.
        static let look: Int64 = 1_000
    }

    private let path: String
    private let state: Mutex<BearerState>

    /// - Parameter longestLife: the longest life of tokens of devices and administrators, in milliseconds; nil for no
    ///   limit.
    package init(
        keys path: String, issuer: String?, audience: String?, longestLife: Int64? = nil
    ) throws(TokenError) {
        self.path = path
        let mark = FileMark(path)
        let verifier = TokenVerifier(
            keys: try KeySet(file: path), issuer: issuer, audience: audience,
            longestLife: longestLife)
        state = Mutex(BearerState(verifier: verifier, file: mark))
    }

    /// The keys of the file that are ignored, each with the reason.
    package var unusableKeys: [String] { state.withLock(\.verifier.keys.unusable) }

    /// Checks that the `Authorization` headers contain the token of a backend. Exactly one such header is required.
    func check(_ headers: [String]) throws(Problem) {
        guard try bearer(headers, .noToken).token.role == .server else { throw .wrongRole }
    }

    /// Returns the administrator whose token the `Authorization` headers contain.
    func admin(_ headers: [String]) throws(Problem) -> Bearer {
        let bearer = try bearer(headers, .noAdminToken)
        guard bearer.token.role == .admin else { throw .wrongAdminRole }
        return bearer
    }

    /// Returns the user whose token the `Authorization` headers contain.
    func user(_ headers: [String]) throws(Problem) -> Bearer {
        let bearer = try bearer(headers, .noUsersToken)
        guard bearer.token.role == .device else { throw .wrongUsersRole }
        guard !isDisabled(bearer.token.user) else { throw .disabledUser }
        return bearer
    }

    private func isDisabled(_ user: UserID) -> Bool { state.withLock { $0.disabled.contains(user) } }

    /// Takes the users whose tokens are refused from now on.
    func disable(_ users: Set<UserID>) { state.withLock { $0.disabled = users } }

    /// Whether the token is still valid now. The signature is verified again only after a change of the keys, because
    /// this check runs twice a second for each of many streams.
    func stillCounts(_ bearer: Bearer) -> Bool {
        guard !isDisabled(bearer.token.user) else { return false }
        let generation = state.withLock(\.generation)
        if bearer.verified.value == generation {
            return SystemClock.wall.milliseconds < bearer.token.expiresAt
        }
        guard (try? token(bearer.text)) != nil else { return false }
        bearer.verified.value = generation
        return true
    }

    private func bearer(_ headers: [String], _ missing: Problem) throws(Problem) -> Bearer {
        guard headers.count == 1, let text = Self.bearer(headers[0]) else { throw missing }
        // Read before the verification: if the keys change meanwhile, the token is verified again.
        let generation = state.withLock(\.generation)
        return Bearer(text: text, token: try token(text), generation: generation)
    }

    private func token(_ text: String) throws(Problem) -> Token {
        let now = SystemClock.wall.milliseconds
        let key = ByteString(text)
        let (known, verifier) = state.withLock { ($0.known[key], $0.verifier) }
        if let known, now < known.expiresAt { return known }
        let verified: Token
        do throws(TokenError) {
            verified = try verifier.verify(text, now: now).token
        } catch {
            throw error.kind == .expired ? .expired : .unauthorized("the token is not valid: \(error)")
        }
        state.withLock { state in
            if state.known.count >= BearerBounds.known { state.known = [:] }
            state.known[key] = verified
        }
        return verified
    }

    private static func bearer(_ header: String) -> String? {
        let parts = header.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }

    /// Reads the keys again when their file has changed. An unreadable file leaves the keys as they are. Returns the
    /// notice for the operator; nil when the file has not changed.
    func lookAtKeys() -> GatewayStatus.Notice? {
        let now = SystemClock.boot.milliseconds
        let isDue = state.withLock { state in
            guard state.nextLook <= now else { return false }
            state.nextLook = now + BearerBounds.look
            return true
        }
        guard isDue else { return nil }
        let mark = FileMark(path)
        guard mark != state.withLock(\.file) else { return nil }
        do throws(TokenError) {
            let keys = try KeySet(file: path)
            state.withLock { state in
                state.verifier.keys = keys
                state.generation += 1
                state.known = [:]
                state.file = mark
            }
            return .keysRead(unusable: keys.unusable)
        } catch {
            state.withLock { $0.file = mark }
            return .keysUnreadable(error.description)
        }
    }

    /// Makes a token for a device, for the longest life at most. Throws when the gateway has no private key.
    func makeToken(_ user: UserID, _ device: DeviceID?, life: Int64) throws(Problem) -> (text: String, expiresAt: Int64)
    {
        let verifier = state.withLock(\.verifier)
        guard let key = verifier.keys.signingKey else { throw .noPrivateKey }
        // Tokens have times in whole seconds.
        let now = SystemClock.wall.milliseconds / 1_000 * 1_000
        var token = Token(user: user, expiresAt: now + min(life, verifier.longestLife ?? life))
        token.device = device
        token.issuer = verifier.issuer
        token.audience = verifier.audience.map { [$0] } ?? []
        do throws(TokenError) {
            return (try token.signed(by: key, issuedAt: now), token.expiresAt)
        } catch {
            throw Problem(SignalingError(.internal, "the token could not be made"))
        }
    }
}

/// The holder of a valid token.
struct Bearer: Sendable {
    let text: String
    let token: Token
    fileprivate let verified: VerifiedGeneration

    init(text: String, token: Token, generation: Int = 0) {
        (self.text, self.token) = (text, token)
        verified = VerifiedGeneration(generation)
    }
}

/// The generation of keys that last verified a token.
private final class VerifiedGeneration: Sendable {
    private let generation: Atomic<Int>

    init(_ generation: Int) { self.generation = Atomic(generation) }

    var value: Int {
        get { generation.load(ordering: .relaxed) }
        set { generation.store(newValue, ordering: .relaxed) }
    }
}
