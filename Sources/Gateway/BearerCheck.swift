import Glibc
import SignalingProtocol
import Support
import Synchronization
import Tokens

/// Who asks: a backend, with a token of `role: server`, or a user, with one of its own (docs/protocol.md, section 1, Tokens). For any
/// thread.
package final class BearerCheck: Sendable {
    private struct State {
        var verifier: TokenVerifier
        /// How often the keys have changed.
        var generation = 0
        /// Tokens that counted: verifying a signature takes longer than all else.
        var known: [ByteString: Token] = [:]
        var file: FileMark?
        var nextLook: Int64 = 0
    }

    /// What changes when a file does.
    private struct FileMark: Equatable {
        let inode: UInt
        let size: Int
        let seconds: Int
        let nanoseconds: Int

        /// Nil when there is no file.
        init?(_ path: String) {
            var found = stat()
            guard stat(path, &found) == 0 else { return nil }
            inode = UInt(found.st_ino)
            size = Int(found.st_size)
            seconds = found.st_mtim.tv_sec
            nanoseconds = found.st_mtim.tv_nsec
        }
    }

    private enum Bounds {
        static let known = 1_024
        /// Milliseconds between looks at the key file: a key that was taken away counts no longer.
        static let look: Int64 = 1_000
    }

    private let path: String
    private let state: Mutex<State>

    package init(keys path: String, issuer: String?, audience: String?) throws(TokenError) {
        self.path = path
        let mark = FileMark(path)
        let verifier = TokenVerifier(keys: try KeySet(file: path), issuer: issuer, audience: audience)
        state = Mutex(State(verifier: verifier, file: mark))
    }

    /// The keys of the file that are passed over, with the reasons.
    package var unusableKeys: [String] { state.withLock(\.verifier.keys.unusable) }

    /// A backend, by the headers `Authorization`: there must be one.
    func check(_ headers: [String]) throws(Problem) {
        guard try bearer(headers, .noToken).token.role == .server else { throw .wrongRole }
    }

    /// A user, by the same.
    func user(_ headers: [String]) throws(Problem) -> Bearer {
        let bearer = try bearer(headers, .noUsersToken)
        guard bearer.token.role == .device else { throw .wrongUsersRole }
        return bearer
    }

    /// Whether its token would be taken now. The signature is verified again when the keys have changed since it was: there may be many who
    /// are asked about twice a second.
    func stillCounts(_ bearer: Bearer) -> Bool {
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
        // Before the token is verified: if the keys change meanwhile, it is verified again.
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
            throw error.kind == .expired ? .expired : .unauthorized("the token does not count: \(error)")
        }
        state.withLock { state in
            if state.known.count >= Bounds.known { state.known = [:] }
            state.known[key] = verified
        }
        return verified
    }

    private static func bearer(_ header: String) -> String? {
        let parts = header.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }

    /// Reads the keys again when their file has changed. What cannot be read changes nothing. What is to be told of it; nil when there is
    /// nothing.
    func lookAtKeys() -> GatewayStatus.Notice? {
        let now = SystemClock.boot.milliseconds
        let isDue = state.withLock { state in
            guard state.nextLook <= now else { return false }
            state.nextLook = now + Bounds.look
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

    /// A device's token; refused without a private key.
    func makeToken(_ user: UserID, _ device: DeviceID?, life: Int64) throws(Problem) -> (text: String, expiresAt: Int64)
    {
        let verifier = state.withLock(\.verifier)
        guard let key = verifier.keys.signingKey else { throw .noPrivateKey }
        // A token counts in whole seconds.
        let now = SystemClock.wall.milliseconds / 1_000 * 1_000
        var token = Token(user: user, expiresAt: now + life)
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

/// Who showed a token that counts.
struct Bearer: Sendable {
    let text: String
    let token: Token
    fileprivate let verified: VerifiedGeneration

    init(text: String, token: Token, generation: Int = 0) {
        (self.text, self.token) = (text, token)
        verified = VerifiedGeneration(generation)
    }
}

/// The generation of keys by which a token was verified last.
private final class VerifiedGeneration: Sendable {
    private let generation: Atomic<Int>

    init(_ generation: Int) { self.generation = Atomic(generation) }

    var value: Int {
        get { generation.load(ordering: .relaxed) }
        set { generation.store(newValue, ordering: .relaxed) }
    }
}
