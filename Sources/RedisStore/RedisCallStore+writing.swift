import CallCore
import CallStore
import SignalingProtocol

/// The steps of a write: claims and lists before the commits, their consequences after the commits
/// (docs/decisions/0006).
extension RedisCallStore {
    package func write(
        _ commits: [Commit], _ notes: [Note], thenRead queries: [Query]
    ) async throws(StoreError) -> Written {
        let held = try await takeExpectedClaims(commits)
        let open = commits.indices.filter { !held.contains($0) }
        let before = session.machine.boot()
        var pipeline = try session.pipeline()
        let score = LiveScore.written(at: try await session.now())
        for index in open { addFirstSteps(of: commits[index], score, to: &pipeline) }
        pipeline.beginStage()
        let firstCommit = pipeline.commands.count
        for index in open { add(commits[index], to: &pipeline) }
        let firstNote = pipeline.commands.count
        add(notes, to: &pipeline)
        pipeline.beginStage()
        let firstReading = pipeline.commands.count
        add(queries, to: &pipeline)
        var outcomes = [CommitOutcome](repeating: .claimHeld, count: commits.count)
        guard !pipeline.commands.isEmpty else { return Written(outcomes: outcomes, answers: []) }
        let replies = try await session.run(pipeline, isWrite: firstReading > 0)
        for (command, reply) in zip(pipeline.commands, replies[..<firstCommit]) where command.isScript || !reply.isOK {
            _ = try reply.number()
        }
        for reply in replies[firstNote..<firstReading] { _ = try reply.number() }
        for (index, reply) in zip(open, replies[firstCommit..<firstNote]) {
            outcomes[index] = try outcome(reply, of: commits[index].id, sentAt: before)
        }
        try settle(commits, outcomes)
        // The other commits stand, even if this fails: any coordinator that finds an entry without its call removes the
        // entry.
        let lost = open.filter { outcomes[$0].isLost }
        try? await takeBack(lost.map { (commits[$0], score) })
        try? await takeBackOutstanding(of: lost.map { commits[$0] })
        return Written(outcomes: outcomes, answers: try answers(to: queries, in: replies[firstReading...]))
    }

    private func outcome(
        _ reply: RedisReply, of id: RecordID, sentAt before: Milliseconds
    ) throws(StoreError) -> CommitOutcome {
        guard let parts = reply.array, parts.count == 3, let version = parts[1].integer, let time = parts[2].integer
        else { throw reply.unexpected }
        let isExplained =
            try session.hasClock(for: key(id))
            ? session.learnClock(time, between: before, session.machine.boot()) : true
        return switch parts[0].integer {
        case 1: .committed(version: version)
        // Redis's clock was set: the request is decided again, after a check of the clock.
        case 2: isExplained ? .stale : .conflict
        default: .conflict
        }
    }

    /// Takes the claims of commits that expect holders. Returns the places of the commits that found a claim held by
    /// another call; no further steps follow for these commits.
    private func takeExpectedClaims(_ commits: [Commit]) async throws(StoreError) -> Set<Int> {
        var places: [Int] = []
        guard commits.contains(where: { !$0.expectedHolders.isEmpty }) else { return [] }
        var pipeline = try session.pipeline()
        for (place, commit) in commits.enumerated() where !commit.expectedHolders.isEmpty {
            let count = pipeline.commands.count
            addClaims(of: commit, to: &pipeline)
            places += [Int](repeating: place, count: pipeline.commands.count - count)
        }
        // In a cluster, the server of a claim may get no other command of this write. The claims need a `WAIT` of their
        // own, since the later `WAIT` does not ask that server's replicas.
        let replies = try await session.run(pipeline, isWrite: session.isCluster)
        var held: Set<Int> = []
        for ((place, command), reply) in zip(zip(places, pipeline.commands), replies) {
            let isTaken = command.isScript ? try reply.number() == 1 : try reply.wasSet()
            if !isTaken { held.insert(place) }
        }
        return held
    }

    /// Adds the steps before a commit: its claims, the entries that the limits count, and the list entries by which a
    /// returning device finds its calls.
    private func addFirstSteps(of commit: Commit, _ score: String, to pipeline: inout RedisPipeline) {
        if commit.expectedHolders.isEmpty { addClaims(of: commit, to: &pipeline) }
        addOutstanding(of: commit, to: &pipeline)
        switch commit.record {
        case .call(let call):
            for user in commit.newMembers {
                addEntry(call, of: user, score: call.endedAt.map { String($0) } ?? score, to: &pipeline)
            }
        case .message(let message) where message.isListed && commit.expected == 0:
            let list = key(message.to, "messages")
            pipeline.command("ZADD", 3) {
                $0.add(list)
                $0.add(message.createdAt)
                $0.add(commit.id.string)
            }
            // Entries of a coordinator that died become too old at some time.
            pipeline.command("ZREMRANGEBYSCORE", 3) {
                $0.add(list)
                $0.add("-inf")
                $0.add(message.createdAt - Bounds.messageListLife)
            }
            pipeline.command("PEXPIRE", 2) {
                $0.add(list)
                $0.add(Bounds.messageListLife)
            }
        case .message, .alias, .cancelled, .void, .unreadable: break
        }
    }

    /// Adds the commands that check and take the commit's claims. The claims of a tag that are expected to have any
    /// holder need no check.
    private func addClaims(of commit: Commit, to pipeline: inout RedisPipeline) {
        var rest = commit.expectedHolders.map(\.claim)
        for claim in commit.claims where !rest.contains(claim) { rest.append(claim) }
        while let first = rest.first {
            let tag = tag(of: first)
            let claims = rest.filter { self.tag(of: $0) == tag }
            rest.removeAll(where: claims.contains)
            let expected = commit.expectedHolders.filter { claims.contains($0.claim) }
            // A single claim that nobody is expected to hold needs no script.
            let isFree = claims.count == 1 && expected.first?.holder == nil && commit.claims.contains(first)
            if expected.isEmpty || isFree {
                for claim in claims { take(claim, of: commit, onlyIfFree: !expected.isEmpty, in: &pipeline) }
                continue
            }
            pipeline.script(.claim, keys: claims.count, arguments: 1 + 2 * claims.count) {
                for claim in claims { $0.add(key(claim)) }
                $0.add(commit.holder.map(text) ?? "")
                for claim in claims {
                    let expected = commit.expectedHolders.first { $0.claim == claim }
                    $0.add(expected.map { $0.holder.map(text) ?? "" } ?? "*")
                    $0.add(life(of: claim, taken: commit.claims.contains(claim)))
                }
            }
        }
    }

    private func take(
        _ claim: Claim, of commit: Commit, onlyIfFree: Bool, in pipeline: inout RedisPipeline
    ) {
        let life = life(of: claim, taken: true)
        let isLimited = life != "0"
        pipeline.command("SET", 2 + (onlyIfFree ? 1 : 0) + (isLimited ? 2 : 0)) {
            $0.add(key(claim))
            $0.add(commit.holder.map(text) ?? "")
            if onlyIfFree { $0.add("NX") }
            if isLimited {
                $0.add("PX")
                $0.add(life)
            }
        }
    }

    private func life(of claim: Claim, taken: Bool) -> String {
        guard taken else { return "" }
        switch claim {
        case .activeCall: return "0"
        case .ringing: return Bounds.ringingClaimLife
        }
    }

    private func add(_ commit: Commit, to pipeline: inout RedisPipeline) {
        let endpoints = commit.outboxEntries?.to ?? []
        let revisions = commit.outboxEntries?.revisions ?? []
        let outboxWords = revisions.isEmpty ? 0 : 1 + 2 * revisions.count
        let pushes = commit.pushes && commit.id.callID != nil ? pushes(in: partition(of: commit.id)) : nil
        pipeline.script(
            .commit, keys: 3 + 6 * endpoints.count + (pushes == nil ? 0 : 2),
            arguments: 10 + outboxWords + 3 * commit.notes.count
        ) {
            $0.add(key(commit.id))
            $0.add(dueKey(commit.id))
            $0.add(liveKey(commit.id))
            for endpoint in endpoints {
                let outbox = outbox(endpoint, of: commit.id)
                $0.add(outbox.line(commit.id))
                $0.add(outbox.due)
                $0.add(outbox.age)
                $0.add(outbox.counts)
                $0.add(outbox.owners)
                $0.add(outbox.whose)
            }
            if let pushes {
                $0.add(pushes.due)
                $0.add(pushes.holders)
            }
            $0.add(commit.expected)
            $0.add(records.encode(commit.record, commit.id))
            if let deadline = commit.deadline { $0.add(deadline) } else { $0.add("") }
            if let expiresAt = commit.expiresAt { $0.add(session.raw(expiresAt)) } else { $0.add("") }
            $0.add(commit.id.string)
            if let validity = commit.validity {
                $0.add(session.raw(validity.lowerBound))
                $0.add(session.raw(validity.upperBound))
            } else {
                $0.add("")
                $0.add("")
            }
            $0.add(Int64(outboxWords))
            switch commit.liveChange {
            case .live(let ringing)?: $0.add(Int64(ringing))
            case .over?: $0.add("over")
            case nil: $0.add("")
            }
            if outboxWords > 0 { $0.add(commit.record.owner?.string ?? "") }
            for (place, revision) in revisions.enumerated() {
                $0.add("\(revision.number):\(revision.time):")
                // The last revision is the record that is written.
                $0.add(place == revisions.count - 1 ? [] : RecordCodec.encode(revision.record))
            }
            for note in commit.notes { add(note, to: &$0) }
            $0.add(session.comparedTime)
        }
    }

    /// Adds notes beside calls that are not written: one command for all notes of a call, except for the notes of
    /// workers that push.
    private func add(_ notes: [Note], to pipeline: inout RedisPipeline) {
        var calls: [(id: CallID, notes: [Note])] = []
        for note in notes {
            if case .push(let callID, _, let worker?) = note {
                add(note, of: worker, beside: callID, to: &pipeline)
            } else if calls.last?.id == note.callID {
                calls[calls.count - 1].notes.append(note)
            } else {
                calls.append((note.callID, [note]))
            }
        }
        for (id, notes) in calls {
            pipeline.script(.note, keys: 1, arguments: 3 * notes.count) {
                $0.add(key(.call(id)))
                for note in notes { add(note, to: &$0) }
            }
        }
    }

    private func add(_ note: Note, of worker: WorkerID, beside callID: CallID, to pipeline: inout RedisPipeline) {
        let partition = partition(of: .call(callID))
        pipeline.script(.notePush, keys: 3, arguments: 5) {
            $0.add(key(.call(callID)))
            $0.add(pushes(in: partition).holders)
            $0.add(lease(of: worker, in: partition))
            $0.add(worker.string)
            $0.add(callID.string)
            add(note, to: &$0)
        }
    }

    /// Adds the three words of a note.
    private func add(_ note: Note, to words: inout RedisWords) {
        switch note {
        case .ack(_, let ack):
            words.add("a")
            words.add("a", ack.device.deviceID.string, "/", ack.device.userID.string)
            words.add("", String(ack.revision), ":", ack.session)
        case .heard(_, let heard):
            words.add("h")
            words.add("h", heard.userID.string, "", "")
            words.add(heard.at)
        case .milestone(_, let device, let milestone):
            words.add("m")
            words.add("m", "\(milestone.name)/\(device.deviceID)", "/", device.userID.string)
            words.add(milestone.milliseconds)
        case .push(_, let push, _):
            words.add("p")
            add(push, to: &words)
        case .ringCheck(_, let check):
            words.add("c")
            add(check, to: &words)
        }
    }

    /// Adds the steps after the commits: claims are given up, and ended calls are entered into users' lists. No request
    /// waits for these steps. When a claim is not given up, any call that needs the claim takes over; a reader of a
    /// list also reads the calls.
    private func settle(_ commits: [Commit], _ outcomes: [CommitOutcome]) throws(StoreError) {
        var pipeline = try session.pipeline()
        for user in overfull {
            pipeline.script(.trim, keys: 1, arguments: 1) {
                $0.add(key(user, "calls"))
                $0.add(Int64(historyPerUser))
            }
        }
        overfull = []
        var lists: [(user: UserID, place: Int)] = []
        var releases: [Release] = []
        for (commit, outcome) in zip(commits, outcomes) {
            guard case .committed = outcome else { continue }
            removeSettled(of: commit, to: &pipeline)
            releases += commit.releases.map { Release(claim: $0, callID: commit.id.string, version: commit.expected) }
            if case .message(let message) = commit.record, !message.isListed {
                pipeline.command("ZREM", 2) {
                    $0.add(key(message.to, "messages"))
                    $0.add(commit.id.string)
                }
            }
            if case .call(let call) = commit.record {
                for user in commit.formerMembers {
                    pipeline.command("ZREM", 2) {
                        $0.add(key(user, "calls"))
                        $0.add(HistoryPlace(createdAt: call.createdAt, callID: call.callID).text)
                    }
                }
            }
            guard commit.hasJustEnded, case .call(let call) = commit.record, let endedAt = call.endedAt else {
                continue
            }
            for user in call.participants {
                // Counting costs as much as the entry. The turn is random, so that no order of calls can keep a list
                // long.
                if Int.random(in: 0...historyPerUser / Bounds.historySlack, using: &lots) == 0 {
                    lists.append((user, pipeline.commands.count))
                    addCount(ofEnded: user, to: &pipeline)
                }
                addEnd(of: call, endedAt, of: user, to: &pipeline)
            }
        }
        let firstRelease = pipeline.commands.count
        add(releases, to: &pipeline)
        try session.post(pipeline) { [unowned self] replies in
            if replies[firstRelease...].contains(where: { $0.error?.hasPrefix("CROSSSLOT") ?? false }) {
                isSharded = true
            }
            for (user, place) in lists
            where replies[place].integer ?? 0 > historyPerUser + historyPerUser / Bounds.historySlack {
                overfull.append(user)
            }
        }
    }

    /// A claim that a call gives up, and the latest version at which the call may have taken the claim.
    private struct Release {
        let claim: Claim
        let callID: String
        let version: Int64
    }

    /// Adds the commands that give claims up: for a bounded number of claims at a time, and for the claims of a tag in
    /// a cluster, also behind a proxy that hides the cluster.
    private func add(_ releases: [Release], to pipeline: inout RedisPipeline) {
        var rest = releases[...]
        while let first = rest.first {
            var group = rest.prefix(Bounds.releasesPerScript)
            if session.isCluster || isSharded {
                let tag = tag(of: first.claim)
                group = group.prefix { self.tag(of: $0.claim) == tag }
            }
            rest = rest[group.endIndex...]
            pipeline.script(.release, keys: group.count, arguments: 2 * group.count) {
                for release in group { $0.add(key(release.claim)) }
                for release in group {
                    $0.add(release.callID)
                    $0.add(release.version)
                }
            }
        }
    }

    /// Adds the command that counts the ended calls in a user's list.
    private func addCount(ofEnded user: UserID, to pipeline: inout RedisPipeline) {
        pipeline.command("ZCOUNT", 3) {
            $0.add(key(user, "calls"))
            $0.add("-inf")
            $0.add("(\(LiveScore.base)")
        }
    }

    /// Adds the commands for a call end in a user's list.
    private func addEnd(
        of call: Call, _ endedAt: Milliseconds, of user: UserID, to pipeline: inout RedisPipeline
    ) {
        let list = key(user, "calls")
        // The entry must exist already, since the user may have been deleted in between.
        addEntry(call, of: user, score: String(endedAt), mustBeThere: true, to: &pipeline)
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(list)
            $0.add("-inf")
            $0.add(endedAt - historyRetention)
        }
        pipeline.command("PEXPIRE", 2) {
            $0.add(list)
            $0.add(historyRetention + Bounds.indexSlack)
        }
    }
}
