import SignalingProtocol
import Support

/// Random messages of every kind, with every field present or not, for round trips.
struct RandomMessages {
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    private mutating func maybe<Value>(_ value: (inout RandomMessages) -> Value) -> Value? {
        random.chance(50) ? value(&self) : nil
    }

    private mutating func one<Choice: CaseIterable>(of _: Choice.Type) -> Choice {
        Choice.allCases.randomElement(using: &random)!
    }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    private mutating func time() -> Int64 { Int64.random(in: 0...4_000_000_000_000, using: &random) }

    private mutating func text(_ maxCount: Int = 20) -> String {
        let alphabet = Array("ab \"\\/\n\r\t\u{0}\u{1F}\u{7F}é日😀\u{301}\u{2028}")
        return String((0..<number(0...maxCount)).map { _ in alphabet.randomElement(using: &random)! })
    }

    private mutating func token(_ maxCount: Int = 64) -> String {
        let alphabet = Array("ABCxyz019_-")
        return String((0..<number(1...maxCount)).map { _ in alphabet.randomElement(using: &random)! })
    }

    private mutating func callID() -> CallID { CallID(token())! }

    mutating func user() -> UserID {
        while true {
            if let user = UserID(text(12)) { return user }
        }
    }

    private mutating func users(_ maxCount: Int = 9) -> [UserID] {
        var users: [UserID] = []
        for _ in 0..<number(1...maxCount) {
            let user = user()
            if !users.contains(user) { users.append(user) }
        }
        return users
    }

    private mutating func push() -> Request.Push {
        .init(
            title: maybe { $0.text() }, content: maybe { $0.text() }, payload: maybe { $0.text() },
            missed: maybe { .init(title: $0.maybe { $0.text() }, content: $0.maybe { $0.text() }) })
    }

    // MARK: Up

    mutating func upMessage() -> UpMessage {
        switch number(0...6) {
        case 0: .heartbeat(callID())
        case 3: .signal(signal())
        case 1: .ackCall(callID(), revision: number(0...Int.max))
        case 2: .ackMessage(MessageID(token())!)
        default: .request(Request(id: RequestID(token())!, body: requestBody()))
        }
    }

    private mutating func requestBody() -> Request.Body {
        switch number(0...23) {
        case 0: .invite(invite())
        case 1:
            .cancel(.init(callID: callID(), invitees: maybe { $0.users() }, extendedData: maybe { $0.text() }))
        case 2: .accept(.init(callID: callID(), extendedData: maybe { $0.text() }))
        case 3: .reject(.init(callID: callID(), reason: text(), extendedData: maybe { $0.text() }))
        case 4:
            .add(
                .init(
                    callID: callID(), invitees: users(), timeout: maybe { $0.number(1...600) },
                    extendedData: maybe { $0.text() }, push: maybe { $0.push() }))
        case 5: .join(.init(callID: callID(), extendedData: maybe { $0.text() }))
        case 6: .quit(.init(callID: callID(), extendedData: maybe { $0.text() }))
        case 7: .end(.init(callID: callID(), reason: maybe { $0.text() }, extendedData: maybe { $0.text() }))
        case 8: .signal(signal())
        case 9: .report(.init(callID: callID(), milestones: milestones()))
        case 10: .trace(.init(callID: callID()))
        case 11: .query(.init(count: maybe { $0.number(1...100) }, cursor: maybe { $0.text() }))
        case 12:
            .message(
                .init(
                    to: user(), data: data(), ttl: maybe { $0.number(1...600) }, messageID: maybe { $0.messageID() },
                    seq: maybe { $0.seq() }, stream: maybe { $0.token() }))
        case 13:
            .userUpdate(
                .init(
                    name: maybe { $0.plain() }, avatarURL: maybe { $0.plain() }, extendedData: maybe { $0.text() }))
        case 14: .userQuery(.init(userIDs: users(100)))
        case 15: .userBlock(.init(userID: user(), isBlocked: number(0...1) == 0))
        case 16: .userBlockList
        case 17: .userSignOut(DeviceID(token())!)
        case 18: .userDelete
        case 19: .pushRegister(registration())
        case 20: .pushUnregister(.init(platform: maybe { $0.one(of: PushPlatform.self) }, app: maybe { $0.app() }))
        case 21:
            .ringCheck(
                .init(
                    callID: callID(), device: DeviceID(token())!, invitation: number(1...99),
                    isRejected: random.chance(50)))
        case 22: .media(.init(callID: callID()))
        default: .get(.init(callID: callID()))
        }
    }

    private mutating func app() -> AppName { AppName(token())! }

    private mutating func registration() -> Request.PushRegister {
        let platform = one(of: PushPlatform.self)
        guard platform == .webPush else { return .init(platform: platform, app: app(), target: .token(token())) }
        return .init(
            platform: platform,
            target: .subscription(
                endpoint: "https://\(token()).example/\(token())", p256dh: PushTests.point, auth: PushTests.secret))
    }

    private mutating func messageID() -> MessageID { MessageID(token())! }

    private mutating func seq() -> Int64 { Int64.random(in: 0...(1 << 53 - 1), using: &random) }

    /// Text without control characters.
    private mutating func plain() -> String {
        text().filter { !$0.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F } }
    }

    /// Any JSON value, also in spellings that our encoder would not choose.
    private mutating func data() -> JSONText {
        let texts = [
            "null", "0", "-0.0", "1e400", "1.50", "123456789012345678901234567890", "true", "\"\\u00e9\\/\"", "[]",
            "{}",
            "{ \"a\" : [ 1 , { \"b\":\t null } ] , \"a\":2 }", "\"😀\"", "[[[[[[]]]]]]",
        ]
        return JSONText(texts.randomElement(using: &random)!)!
    }

    private mutating func signal() -> Request.Signal {
        .init(
            callID: callID(), to: maybe { $0.users(20) }, seq: maybe { $0.seq() }, stream: maybe { $0.token() },
            data: data())
    }

    private mutating func milestones() -> [Milestone] {
        var milestones: [Milestone] = []
        for _ in 0..<number(1...5) {
            let name = token()
            guard !milestones.contains(where: { $0.name == name }) else { continue }
            milestones.append(Milestone(name: name, milliseconds: Int64(number(0...86_400_000))))
        }
        return milestones
    }

    private mutating func invite() -> Request.Invite {
        Request.Invite(
            invitees: users(), callID: maybe { $0.callID() }, mode: one(of: CallMode.self),
            timeout: maybe { $0.number(1...600) }, media: maybe { $0.text(6) }, extendedData: maybe { $0.text() },
            notReceivedCheck: random.chance(50), notReceivedAfter: maybe { $0.number(1...30) },
            joinPolicy: one(of: JoinPolicy.self), autoEnd: random.chance(50), ifBusy: one(of: BusyPolicy.self),
            glare: one(of: GlarePolicy.self), push: maybe { $0.push() })
    }

    mutating func presence() -> PresenceMessage {
        let reason = one(of: PresenceMessage.OfflineReason.self)
        return PresenceMessage(random.chance(50) ? .online : .offline(reason), session: text(8))
    }

    // MARK: Down

    mutating func downMessage() -> DownMessage {
        switch number(0...9) {
        case 8: .tokenWillExpire(at: time())
        case 0: .response(.init(id: RequestID(token())!, outcome: .failure(error())))
        case 4: .response(.init(id: RequestID(token())!, outcome: .answer(answer())))
        case 5:
            .signal(
                .init(
                    callID: callID(), from: address(), seq: maybe { $0.seq() }, stream: maybe { $0.token() },
                    data: data()))
        case 6:
            .message(
                .init(
                    messageID: messageID(), from: address(), time: time(), seq: maybe { $0.seq() },
                    stream: maybe { $0.token() }, data: data()))
        case 7: .receipt(.init(messageID: messageID(), to: user(), state: one(of: MessageState.self), time: time()))
        case 1: .response(.init(id: RequestID(token())!, outcome: .success(success())))
        case 2: .event(event())
        case 3:
            .welcome(
                Welcome(
                    session: text(), serverTime: time(), heartbeatInterval: number(1...100),
                    heartbeatTimeout: number(1...100), calls: (0..<number(0...3)).map { _ in call() },
                    iceServers: (0..<number(0...1)).map { _ in
                        BellwireIceServer(
                            urls: (0..<number(1...2)).map { _ in text() }, username: text(), credential: text())
                    },
                    mediaSessions: (0..<number(0...2)).map { _ in
                        CallMediaSession(callID: callID(), session: mediaSession())
                    }))
        default: .error(error())
        }
    }

    private mutating func error() -> SignalingError {
        SignalingError(
            ErrorCode.all.randomElement(using: &random)!, text(),
            state: maybe { $0.one(of: MemberState.self).rawValue },
            callID: maybe { $0.callID() }, retryAfter: maybe { $0.number(0...10_000) })
    }

    private mutating func success() -> Response.Success {
        Response.Success(
            call: call(), time: time(), offline: maybe { $0.random.chance(30) ? [] : $0.users() },
            errors: (0..<number(0...2)).map { _ in
                UserError(userID: user(), code: ErrorCode.all.randomElement(using: &random)!)
            },
            merged: random.chance(30),
            reports: (0..<number(0...2)).map { _ in DeviceReport(device: address(), milestones: milestones()) },
            timeline: maybe { random in
                Timeline(
                    entries: (0..<random.number(0...5)).map { _ in random.traceEntry() }, omitted: random.number(0...3))
            }, mediaSession: maybe { $0.mediaSession() })
    }

    private mutating func mediaSession() -> BellwireMediaSession {
        BellwireMediaSession(
            server: text(), type: text(), url: text(), room: text(), token: text(), expiresAt: time())
    }

    private mutating func address() -> DeviceAddress {
        DeviceAddress(userID: user(), deviceID: DeviceID(token())!)
    }

    private mutating func answer() -> Answer {
        switch number(0...8) {
        case 3: .blocked((0..<number(0...3)).map { _ in user() })
        case 5: .done(user())
        case 6:
            .registrations(
                (0..<number(0...3)).map { _ in
                    RegisteredPush(platform: one(of: PushPlatform.self), app: app(), since: time())
                })
        case 7: .ring(.ringing(expiresIn: number(0...600_000), call()))
        case 8: .ring(.over(one(of: RingState.Reason.self)))
        case 0: .calls((0..<number(0...3)).map { _ in call() }, cursor: text())
        case 1:
            .users(
                (0..<number(0...3)).map { _ in profile() },
                errors: (0..<number(0...2)).map { _ in UserError(userID: user(), code: .userNotRegistered) })
        case 2: .user(profile())
        default: .message(messageID(), time: time(), state: one(of: MessageState.self))
        }
    }

    private mutating func profile() -> UserSnapshot {
        .init(
            userID: user(), name: maybe { $0.text() }, avatarURL: maybe { $0.text() },
            extendedData: maybe { $0.text() },
            isOnline: random.chance(50))
    }

    private mutating func traceEntry() -> TraceEntry {
        let step: TraceEntry.Step =
            switch number(0...6) {
            case 6:
                .push(
                    PushStep(
                        device: address(), platform: one(of: PushPlatform.self), kind: one(of: PushKind.self),
                        outcome: one(of: PushOutcome.self), status: maybe { $0.number(100...599) },
                        reason: maybe { $0.text() }, took: maybe { $0.time() }))
            case 0: .request(address(), type: "call.invite", outcome: text())
            case 1:
                .transition(
                    revision: number(0...99), state: one(of: BellwireCallState.self),
                    endReason: maybe { $0.one(of: EndReason.self) },
                    actor: maybe { $0.user() }, changes: [])
            case 2:
                .send(
                    one(of: EventName.self), to: user(), device: maybe { DeviceID($0.token())! },
                    revision: number(0...99),
                    online: number(0...9), isResend: random.chance(50))
            case 3: .ack(address(), revision: number(0...99))
            case 4: .presence(address(), state: "lost")
            default: .deadline(late: time())
            }
        return TraceEntry(time: time(), coordinator: text(), step: step)
    }

    private mutating func event() -> Event {
        let call = call()
        return Event(
            name: one(of: EventName.self), revision: call.revision, time: time(), actor: maybe { $0.user() },
            changes: call.members.map {
                MemberChange(
                    userID: $0.userID, state: $0.state, device: $0.device, reason: $0.reason,
                    extendedData: $0.extendedData)
            },
            call: call, expiresIn: maybe { $0.number(0...600_000) }, missed: random.chance(30))
    }

    mutating func call() -> CallSnapshot {
        CallSnapshot(
            callID: callID(), revision: number(1...Int(Int32.max)), mode: one(of: CallMode.self),
            state: one(of: BellwireCallState.self), media: maybe { $0.text(6) }, inviter: user(), createdAt: time(),
            acceptedAt: maybe { $0.time() }, endedAt: maybe { $0.time() },
            endReason: maybe { $0.one(of: EndReason.self) }, endedBy: maybe { $0.user() }, timeout: number(1...600),
            extendedData: maybe { $0.text() }, members: (0..<number(1...4)).map { _ in member() })
    }

    private mutating func member() -> MemberSnapshot {
        MemberSnapshot(
            userID: user(), name: maybe { $0.text() }, avatarURL: maybe { $0.text() }, state: one(of: MemberState.self),
            device: maybe { DeviceID($0.token())! }, invitedBy: maybe { $0.user() }, expiresAt: maybe { $0.time() },
            updatedAt: time(), reason: maybe { $0.text() }, extendedData: maybe { $0.text() })
    }
}
