/// The scripts that Redis runs, each atomically and on keys of one hash slot.
package enum RedisScript: CaseIterable {
    /// Writes a call's record if its version is as expected, with its due entry and notes.
    /// KEYS: call, due index, those of endpoints, and when the call may have to be pushed the calls that wait for that and their holders.
    /// ARGV: expected version, record, deadline or "", end of life or "", call id, from when and until when
    /// it is valid or "", how many words follow of what is owed to endpoints: the record's owner, and pairs ("number:time:", and the record, or ""
    /// for the one that is written); then notes. KEYS of each endpoint: line, lines that are due, lines by age, counts, bytes by owner, whose lines
    /// are. The end of life and the validity are by Redis's own clock.
    /// Returns {1 when written, 0 for another version, 2 when it came too late or too early; version; milliseconds}.
    case commit
    /// Adds entries to a timeline. KEYS: the entries, how many were dropped. ARGV: entries kept, life in milliseconds, then
    /// entries.
    case trace
    /// Merges notes beside a call that exists. KEYS: call. ARGV: notes.
    case note
    /// Checks and takes claims under one tag. KEYS: claims. ARGV: own call id, then per key what holder is expected
    /// ("*" for any), and its life in milliseconds when it is to be taken, "0" for ever, or "" to leave it.
    /// Returns 1, or 0 when a claim is held by another call than expected; then nothing is taken.
    case claim
    /// Gives a claim up if the call holds it. KEYS: claim. ARGV: call id, the version until which it may have taken it.
    case release
    /// Removes the oldest of a user's ended calls. KEYS: the user's calls. ARGV: how many are kept.
    case trim
    /// A device came online. KEYS: presence, sessions over, profile. ARGV: device, session, now, lease, devices allowed,
    /// devices known.
    /// Returns 1, or 0 when the session is over.
    case online
    /// A device went offline. KEYS: presence, sessions over. ARGV: device, session, now, memory, sessions remembered, lease.
    /// Returns 1 when that ended its current session.
    case offline
    /// Renews the lease of a device. KEYS: presence. ARGV: device, "", now, lease.
    case renew
    /// Takes back what a commit that lost has entered into a user's list of calls, or enters an end that was not entered. KEYS: the
    /// user's calls. ARGV: entry, the score under which it was seen, the score that it is to have or "".
    /// Returns 1, or 0 when somebody has entered it anew since.
    case mend
    /// What the coordinators agree on about Redis's clock. KEYS: its entry. ARGV: the entry as it was read, or "", as it is to be.
    /// Returns 1, or 0 when somebody else changed it meanwhile.
    case clock
    /// Keeps an endpoint. KEYS: endpoints. ARGV: name, URL, what is kept of it after whether it is off, the field of its last attempt,
    /// which is removed when it has moved. Returns 1.
    case keepEndpoint
    /// It has said at this URL that it is gone. KEYS: endpoints. ARGV: name, URL. Returns 1, or 0 when it has moved since.
    case turnOffEndpoint
    /// It is asked again. KEYS: endpoints. ARGV: name. Returns 1, or 0 when there is no such endpoint.
    case turnOnEndpoint
    /// Writes down what the last attempt came to. KEYS: endpoints. ARGV: name, URL, the field of its last attempt, what it came to.
    /// Returns 1, or 0 when it has moved since.
    case noteAttempt
    /// Claims lines. KEYS: lines that are due, holders, the worker's lease. ARGV: worker, how many, life of the lease. Returns their records.
    case claimLines
    /// A worker tells what became of a revision. KEYS: line, lines that are due, lines by age, holders, attempts, the worker's lease,
    /// counts, dead letters, their texts, bytes by owner, whose lines and dead letters are. ARGV: worker, record, number, "taken", "dead", "again" or "released", delay, "attempts:first".
    /// Returns 0 when the claim is void, 1 when it is given up, else the next revision.
    case settleLine
    /// Frees what a worker holds that is gone. KEYS: holders, lines that are due, the worker's lease. ARGV: worker. Returns how many lines.
    case freeLines
    /// Holds an endpoint to its bounds. KEYS: lines by age, holders, attempts, counts, dead letters, their texts, lines that are due,
    /// bytes by owner, whose lines and dead letters are, then the lines whose first revisions become dead letters. ARGV: how many dead letters may
    /// be deleted for their number, since when they are too old, then the records of the lines. Returns {became dead, deleted}.
    case boundLines
    /// Takes bytes from those who have too many. KEYS: as of `boundLines`, the lines being those to be shortened. ARGV: how many owners, each with
    /// how many bytes are to go; how many dead letters, their names; then the records of the lines. Returns how many revisions were deleted.
    case boundOwners
    /// Puts dead letters back into their line. KEYS: line, lines that are due, lines by age, counts, dead letters, their texts,
    /// holders, attempts, whose lines and dead letters are. ARGV: record, numbers. Returns how many.
    case replayLetters
    /// A registration is made. KEYS: the user's registrations. ARGV: now, how long one lasts, name, what is kept of it, apps per device,
    /// devices per user. Returns what has ended because of it: of each its name, since when it was, its target's digest.
    case register
    /// Registrations of a device end. KEYS: the user's registrations. ARGV: now, how long one lasts, device, platform or "", app or "".
    /// Returns what has ended.
    case unregister
    /// A registration ends. KEYS: the user's registrations. ARGV: now, how long one lasts, name, its target's digest, since when it was or
    /// "" for any. Returns what has ended.
    case endRegistration
    /// A target belongs to a device from now on. KEYS: the owner's entry. ARGV: "device/user", name of the registration, since when, how long
    /// it lasts. Returns, when it was another's, that owner and the names of its registrations.
    case own
    /// A registration does not last any more, unless it was made anew. KEYS: the target owner's entry. ARGV: "device/user", name, since when.
    case disown
    /// Takes calls of which somebody may have to be woken. KEYS: those that wait, holders, the worker's lease. ARGV: worker, how many, life
    /// of the lease, life of the holders. Returns their ids.
    case takePushes
    /// A worker has looked at a call. KEYS: calls that wait, holders, the worker's lease. ARGV: worker, call, delay or "".
    /// Returns 0 when it held it no more, 1 when it has let it go, 2 when it is to look again.
    case settlePush
    /// Frees what a worker holds that is gone. KEYS: calls that wait, holders, the worker's lease. ARGV: worker. Returns how many.
    case freePushes
    /// Merges notes of a worker beside a call, while it holds that. KEYS: call, holders, the worker's lease. ARGV: worker, call, notes.
    case notePush
    /// Whether a push may be sent. KEYS: those that the device was sent lately. ARGV: id, inviter, how long one counts, how many may be sent,
    /// and how many because of one inviter. Returns 1 or 0.
    case reservePush

    var source: String {
        switch self {
        case .commit: Self.shared + Self.commitBody
        case .trace: Self.traceBody
        case .note: Self.shared + Self.noteBody
        case .claim: Self.claimBody
        case .release: Self.releaseBody
        case .trim: Self.trimBody
        case .online: Self.sharedPresence + Self.onlineBody
        case .offline: Self.sharedPresence + Self.offlineBody
        case .renew: Self.sharedPresence + Self.renewBody
        case .mend: Self.mendBody
        case .clock: Self.clockBody
        case .keepEndpoint: Self.keepEndpointBody
        case .turnOffEndpoint: Self.turnOffEndpointBody
        case .turnOnEndpoint: Self.turnOnEndpointBody
        case .noteAttempt: Self.noteAttemptBody
        case .claimLines: Self.claimLinesBody
        case .settleLine: Self.sharedLines + Self.settleLineBody
        case .freeLines: Self.freeLinesBody
        case .boundLines: Self.sharedLines + Self.boundLinesBody
        case .boundOwners: Self.sharedLines + Self.boundOwnersBody
        case .replayLetters: Self.replayLettersBody
        case .register: Self.sharedRegistrations + Self.registerBody
        case .unregister: Self.sharedRegistrations + Self.unregisterBody
        case .endRegistration: Self.sharedRegistrations + Self.endRegistrationBody
        case .own: Self.ownBody
        case .disown: Self.disownBody
        case .takePushes: Self.takePushesBody
        case .settlePush: Self.settlePushBody
        case .freePushes: Self.freePushesBody
        case .notePush: Self.shared + Self.notePushBody
        case .reservePush: Self.reservePushBody
        }
    }

    /// Notes come as triples: an ack is "a", field, "revision:session"; a sign of life is "h", field, milliseconds; a
    /// milestone is "m", field, milliseconds; how far pushes are is "p", field, "invitation:…"; a ring check is "c", field, invitation.
    private static let shared = """
        local function merge(key, first)
          for i = first, #ARGV, 3 do
            local kind, field, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
            local known = redis.call('HGET', key, field)
            local newer = true
            if known and kind == 'a' then
              local oldRevision, oldSession = string.match(known, '^(%d+):(.*)$')
              local revision, session = string.match(value, '^(%d+):(.*)$')
              newer = oldSession ~= session or tonumber(oldRevision) < tonumber(revision)
            elseif known and (kind == 'h' or kind == 'c') then
              newer = tonumber(known) < tonumber(value)
            elseif known and kind == 'p' then
              newer = tonumber(string.match(known, '^%d+')) <= tonumber(string.match(value, '^%d+'))
            end
            if newer then redis.call('HSET', key, field, value) end
          end
        end

        """

    private static let commitBody = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        if ARGV[7] ~= '' and (now < tonumber(ARGV[6]) or now > tonumber(ARGV[7])) then return {2, 0, now} end
        local version = tonumber(redis.call('HGET', KEYS[1], 'v') or '0')
        if version ~= tonumber(ARGV[1]) then return {0, version, now} end
        redis.call('HSET', KEYS[1], 'v', version + 1, 'r', ARGV[2])
        local owed = tonumber(ARGV[8])
        -- Of each endpoint six keys, and behind them two of pushes or none.
        if #KEYS % 6 == 4 then
          local held = redis.call('HGET', KEYS[#KEYS], ARGV[5])
          if held then redis.call('HSET', KEYS[#KEYS], ARGV[5], '1' .. string.sub(held, 2))
          else redis.call('ZADD', KEYS[#KEYS - 1], now, ARGV[5]) end
        end
        for i = 3, #KEYS - 5, 6 do
          local added, bytes = 0, 0
          for j = 10, 8 + owed, 2 do
            local record = ARGV[j + 1] == '' and ARGV[2] or ARGV[j + 1]
            if redis.call('ZADD', KEYS[i], string.match(ARGV[j], '^%d+'), ARGV[j] .. record) == 1 then
              bytes = bytes + #record
              added = added + 1
            end
          end
          redis.call('HINCRBY', KEYS[i + 3], 'b', bytes)
          redis.call('HINCRBY', KEYS[i + 3], 'w', added)
          local owner
          if redis.call('ZCARD', KEYS[i]) == added then
            owner = ARGV[9]
            redis.call('ZADD', KEYS[i + 1], now, ARGV[5])
            redis.call('ZADD', KEYS[i + 2], string.match(ARGV[10], ':(%d+):'), ARGV[5])
            redis.call('HSET', KEYS[i + 5], ARGV[5], owner)
          else
            -- All that a line holds counts with its first owner.
            owner = redis.call('HGET', KEYS[i + 5], ARGV[5])
          end
          if owner and bytes > 0 then redis.call('ZINCRBY', KEYS[i + 4], bytes, owner) end
        end
        merge(KEYS[1], 9 + owed)
        if ARGV[3] ~= '' then redis.call('ZADD', KEYS[2], ARGV[3], ARGV[5])
        elseif version > 0 then redis.call('ZREM', KEYS[2], ARGV[5]) end
        if ARGV[4] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[4])
        elseif version > 0 then redis.call('PERSIST', KEYS[1]) end
        return {1, version + 1, now}
        """

    /// Coordinators write when they have time: the oldest entries are those of the earliest times, not those written first.
    private static let traceBody = """
        for i = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
        local excess = redis.call('LLEN', KEYS[1]) - tonumber(ARGV[1])
        if excess > 0 then
          local order = {}
          for place, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
            order[place] = {tonumber(string.match(entry, '^{"time":(%d+)')) or 0, place, entry}
          end
          table.sort(order, function(a, b) if a[1] ~= b[1] then return a[1] < b[1] end return a[2] < b[2] end)
          redis.call('DEL', KEYS[1])
          for i = excess + 1, #order do redis.call('RPUSH', KEYS[1], order[i][3]) end
          redis.call('INCRBY', KEYS[2], excess)
          redis.call('PEXPIRE', KEYS[2], ARGV[2])
        end
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
        """

    private static let noteBody = """
        if redis.call('HEXISTS', KEYS[1], 'v') == 0 then return 0 end
        merge(KEYS[1], 1)
        return 1
        """

    /// Nobody waits for it, so that the call may have taken the claim again before it arrives: then it is held at a later version.
    private static let releaseBody = """
        local holder = redis.call('GET', KEYS[1])
        if not holder then return 0 end
        local id, version = string.match(holder, '^([^:]*):(%d+)$')
        if id == ARGV[1] and tonumber(version) <= tonumber(ARGV[2]) then return redis.call('DEL', KEYS[1]) end
        return 0
        """

    private static let claimBody = """
        for i = 1, #KEYS do
          local holder = redis.call('GET', KEYS[i]) or ''
          local expected = ARGV[2 * i]
          if expected ~= '*' and holder ~= expected and holder ~= ARGV[1] then return 0 end
        end
        for i = 1, #KEYS do
          local life = ARGV[2 * i + 1]
          if life == '0' then redis.call('SET', KEYS[i], ARGV[1])
          elseif life ~= '' then redis.call('SET', KEYS[i], ARGV[1], 'PX', life) end
        end
        return 1
        """

    /// Live calls stand behind all ends (`LiveScore`) and are never removed. A member begins with the moment of the call's creation.
    private static let trimBody = """
        local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(\(LiveScore.base)')
        local excess = #ended - tonumber(ARGV[1])
        if excess <= 0 then return 0 end
        local order = {}
        for i, member in ipairs(ended) do
          local digits = string.match(member, '^%d+') or ''
          -- Numbers as text, of one length: compared without being read at each comparison.
          order[i] = { string.rep('0', 20 - #digits) .. digits, member }
        end
        table.sort(order, function(a, b)
          if a[1] == b[1] then return a[2] < b[2] end
          return a[1] < b[1]
        end)
        for i = 1, excess do redis.call('ZREM', KEYS[1], order[i][2]) end
        return excess
        """

    /// A device's entry is "online:since:seen:session".
    private static let sharedPresence = """
        local now = tonumber(ARGV[3])
        local function read(entry)
          if not entry then return nil end
          local online, since, seen, session = string.match(entry, '^(%d):(%d+):(%d+):(.*)$')
          return { online = online == '1', since = tonumber(since), seen = tonumber(seen), session = session }
        end
        local function write(device, online, since, seen, session)
          -- Not by %s: that ends at U+0000.
          redis.call('HSET', KEYS[1], device, string.format('%d:%.0f:%.0f:', online, since, seen) .. session)
        end

        """

    private static let onlineBody = """
        local device, session, lease = ARGV[1], ARGV[2], tonumber(ARGV[4])
        local over = redis.call('ZSCORE', KEYS[2], device .. ':' .. session)
        if session ~= '' and over and tonumber(over) > now then return 0 end
        redis.call('HSETNX', KEYS[3], 'since', string.format('%.0f', now))
        local known = read(redis.call('HGET', KEYS[1], device))
        local since = now
        if known and known.online and known.session == session and known.seen + lease > now then since = known.since end
        write(device, 1, since, now, session)
        local entries = redis.call('HGETALL', KEYS[1])
        local others, offline = {}, {}
        for i = 1, #entries, 2 do
          local other = read(entries[i + 1])
          if entries[i] ~= device then
            if other.seen + lease <= now then
              redis.call('HDEL', KEYS[1], entries[i])
            elseif other.online then
              table.insert(others, { name = entries[i], seen = other.seen })
            else
              table.insert(offline, { name = entries[i], seen = other.seen })
            end
          end
        end
        table.sort(others, function(a, b) if a.seen == b.seen then return a.name < b.name end return a.seen < b.seen end)
        for i = 1, #others + 1 - tonumber(ARGV[5]) do redis.call('HDEL', KEYS[1], others[i].name) end
        table.sort(offline, function(a, b) if a.seen == b.seen then return a.name < b.name end return a.seen < b.seen end)
        for i = 1, redis.call('HLEN', KEYS[1]) - tonumber(ARGV[6]) do
          if offline[i] then redis.call('HDEL', KEYS[1], offline[i].name) end
        end
        redis.call('PEXPIRE', KEYS[1], lease)
        return 1
        """

    private static let offlineBody = """
        local device, session, memory = ARGV[1], ARGV[2], tonumber(ARGV[4])
        if session ~= '' then
          redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
          redis.call('ZADD', KEYS[2], now + memory, device .. ':' .. session)
          redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - tonumber(ARGV[5]))
          redis.call('PEXPIRE', KEYS[2], memory)
        end
        local known = read(redis.call('HGET', KEYS[1], device))
        if not known or not known.online or known.session ~= session then return 0 end
        write(device, 0, known.since, now, session)
        redis.call('PEXPIRE', KEYS[1], ARGV[6])
        return 1
        """

    private static let renewBody = """
        local known = read(redis.call('HGET', KEYS[1], ARGV[1]))
        if not known or not known.online or known.seen + tonumber(ARGV[4]) <= now then return 0 end
        write(ARGV[1], 1, known.since, now, known.session)
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        return 1
        """

    private static let mendBody = """
        local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
        if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
        if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1])
        else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
        return 1
        """

    private static let clockBody = """
        if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], ARGV[2])
        return 1
        """
}
