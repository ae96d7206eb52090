/// The scripts that Redis runs. Each script runs atomically, on keys of one hash slot.
///
/// Where the last argument is the time (`RedisSession.comparedTime`), the server compares the time with its own clock
/// and answers an error when they differ by more than 500 ms.
package enum RedisScript: CaseIterable {
    /// Writes a call's record if its version is as expected, with its due entry, outbox entries and notes.
    ///
    /// KEYS: call, due index, live calls, then six keys per endpoint, and, when the call may have to be pushed, the
    /// calls that wait for pushes and their holders. The keys of an endpoint are: line, due lines, lines by age,
    /// counts, bytes by owner, owners of lines (`whose`).
    ///
    /// ARGV: expected version, record, deadline or "", end of life or "", call id, begin and end of the validity or "",
    /// number of words for endpoints, and the change of the live calls: the number of pending invitations, "over", or
    /// "" when nothing changes; then the words for endpoints, which are the record's owner and a pair per revision
    /// ("number:time:", and the record, or "" for the record that is written); then notes, and the time. All times are
    /// those of the clock of Redis, in a cluster of the clock of the server of the partition {p0}.
    ///
    /// Returns {result, version, time in milliseconds}; the result is 1 when written, 0 for another version, 2 when the
    /// commit came too late or too early.
    case commit
    /// Adds entries to a timeline. KEYS: the entries, the number of dropped entries. ARGV: bound on entries, life in
    /// milliseconds, then the entries.
    case trace
    /// Merges notes beside an existing call. KEYS: call. ARGV: notes.
    case note
    /// Checks and takes the claims of a tag. KEYS: claims. ARGV: own call id, then per key the expected holder ("*" for
    /// any), and the claim's life in milliseconds if the claim is to be taken, "0" for an unlimited life, or "" to
    /// leave the claim. Returns 1, or 0 when another call than expected holds a claim; then no claim is taken.
    case claim
    /// Gives up claims that their calls hold. KEYS: claims. ARGV: per claim the call id, and the latest version at
    /// which the call may have taken the claim. Returns the number of claims that were given up.
    case release
    /// Removes the oldest of a user's ended calls. KEYS: the user's calls. ARGV: number of calls to keep.
    case trim
    /// Notes that a device came online. KEYS: presence, ended sessions, profile. ARGV: device, session, now, life of an
    /// entry, bound on online devices, bound on known devices, time of receipt or "", broker, time. Returns 1, 0 when
    /// the session has ended, 2 when the message is older than the current session, or the former session of the device
    /// at another broker: "broker session".
    case online
    /// Notes that a device went offline. KEYS: presence, ended sessions. ARGV: device, session, now, how long an ended
    /// session is remembered, bound on remembered sessions, life of an entry, broker, time. Returns 1 when this ended
    /// the device's current session.
    case offline
    /// Renews the expiry of a device. KEYS: presence. ARGV: device, "", now, life of an entry, "", time. Returns the
    /// device's broker; 1 when the broker is not known, 0 when the device is not online.
    case renew
    /// Takes back the list entry of a commit that lost, or enters an end that is missing. KEYS: the user's calls. ARGV:
    /// entry, its score when it was read, its new score or "". Returns 1, or 0 when the entry was written anew since.
    case mend
    /// Removes a call from the live calls unless the record exists and is kept without an end. KEYS: call, live calls.
    /// ARGV: call id. Returns 1 when the entry was removed.
    case forgetOver
    /// Writes something on which the coordinators agree: Redis's clock, or the sightings of brokers. KEYS: its entry.
    /// ARGV: the entry as it was read, or "", and the new entry. Returns 1, or 0 when another coordinator changed the
    /// entry in between.
    case agree
    /// Keeps an endpoint. KEYS: endpoints. ARGV: name, URL, the endpoint's data without its state, the field of its
    /// last attempt, the field of its removal, and "lost" to keep only an endpoint that is neither known nor removed.
    /// The last attempt is removed when the URL has changed; the removal is always removed. Returns 1, or 0 when
    /// nothing was kept.
    case keepEndpoint
    /// Removes an endpoint. KEYS: endpoints. ARGV: name, the fields of its last attempt and of its removal. Returns 1,
    /// or 0 when the endpoint is unknown.
    case forgetEndpoint
    /// Turns off an endpoint that answered "gone" at this URL. KEYS: endpoints. ARGV: name, URL. Returns 1, or 0 when
    /// the URL has changed since.
    case turnOffEndpoint
    /// Turns an endpoint on again. KEYS: endpoints. ARGV: name. Returns 1, or 0 when the endpoint is unknown.
    case turnOnEndpoint
    /// Writes the result of the last attempt. KEYS: endpoints. ARGV: name, URL, the field of the last attempt, the
    /// result. Returns 1, or 0 when the URL has changed since.
    case noteAttempt
    /// Claims lines. KEYS: due lines, holders, the worker lease. ARGV: worker, bound on lines, life of the lease.
    /// Returns the lines' records.
    case claimLines
    /// Settles an attempt for a revision. KEYS: line, due lines, lines by age, holders, attempts, the worker lease,
    /// counts, dead letters, their texts, bytes by owner, owners of lines and dead letters. ARGV: worker, record,
    /// number, outcome ("taken", "dead", "again" or "released"), delay, "attempts:first". Returns 0 when the claim is
    /// void, 1 when the worker no longer holds the line, or else the line's next revision.
    case settleLine
    /// Frees the lines of a worker without a lease. KEYS: holders, due lines, the worker lease. ARGV: worker. Returns
    /// the number of lines.
    case freeLines
    /// Holds an endpoint to its bounds. KEYS: lines by age, holders, attempts, counts, dead letters, their texts, due
    /// lines, bytes by owner, owners of lines and dead letters, then the lines whose first revisions become dead
    /// letters. ARGV: number of dead letters to delete because there are too many, time before which dead letters are
    /// too old, then the records of the lines. Returns {new dead letters, deleted dead letters}.
    case boundLines
    /// Deletes revisions of owners that have too many bytes. KEYS: as for `boundLines`; the lines are the lines to
    /// shorten. ARGV: number of owners, each owner with the bytes to delete, number of dead letters, their names, then
    /// the records of the lines. Returns the number of deleted revisions.
    case boundOwners
    /// Puts dead letters back into their line. KEYS: line, due lines, lines by age, counts, dead letters, their texts,
    /// holders, attempts, owners of lines and dead letters. ARGV: record, numbers. Returns the number of dead letters.
    case replayLetters
    /// Makes a registration. KEYS: the user's registrations. ARGV: now, life of a registration, name, value, bound on
    /// apps per device, bound on devices per user, time. Returns three words for each registration that the new
    /// registration ended: name, begin, digest of the target.
    case register
    /// Ends registrations of a device. KEYS: the user's registrations. ARGV: now, life of a registration, device,
    /// platform or "", app or "", time. Returns the ended registrations, as `register` does.
    case unregister
    /// Ends a registration. KEYS: the user's registrations. ARGV: now, life of a registration, name, digest of its
    /// target, begin or "" for any, time. Returns the ended registrations, as `register` does.
    case endRegistration
    /// Gives a target to a device. KEYS: the owner's entry. ARGV: "device/user", name of the registration, begin, life.
    /// Returns the former owner and the names of its registrations, if the target had another owner.
    case own
    /// Removes a registration from its target's owner, unless the registration was made anew. KEYS: the owner's entry.
    /// ARGV: "device/user", name, begin.
    case disown
    /// Takes calls that may have to be pushed. KEYS: waiting calls, holders, the worker lease. ARGV: worker, bound on
    /// calls, life of the lease, life of the holders. Returns the calls' ids.
    case takePushes
    /// Settles a worker's check of a call. KEYS: waiting calls, holders, the worker lease. ARGV: worker, call, delay or
    /// "". Returns 0 when the worker no longer held the call, 1 when the call is released, 2 when the worker must check
    /// the call again.
    case settlePush
    /// Frees the calls of a worker without a lease. KEYS: waiting calls, holders, the worker lease. ARGV: worker.
    /// Returns the number of calls.
    case freePushes
    /// Merges notes of a worker beside a call, while the worker holds the call. KEYS: call, holders, the worker lease.
    /// ARGV: worker, call, notes.
    case notePush
    /// Reserves a push. KEYS: the pushes that the device was sent lately. ARGV: id, inviter, how long a push counts,
    /// bound on pushes, bound on pushes because of one inviter. Returns 1 when the push may be sent, or else 0.
    case reservePush

    var source: String {
        switch self {
        case .commit: Self.checkedTime + Self.shared + Self.commitBody
        case .trace: Self.traceBody
        case .note: Self.shared + Self.noteBody
        case .claim: Self.claimBody
        case .release: Self.releaseBody
        case .trim: Self.trimBody
        case .online: Self.checkedTime + Self.sharedPresence + Self.onlineBody
        case .offline: Self.checkedTime + Self.sharedPresence + Self.offlineBody
        case .renew: Self.checkedTime + Self.sharedPresence + Self.renewBody
        case .mend: Self.mendBody
        case .forgetOver: Self.forgetOverBody
        case .agree: Self.agreeBody
        case .keepEndpoint: Self.keepEndpointBody
        case .forgetEndpoint: Self.forgetEndpointBody
        case .turnOffEndpoint: Self.turnOffEndpointBody
        case .turnOnEndpoint: Self.turnOnEndpointBody
        case .noteAttempt: Self.noteAttemptBody
        case .claimLines: Self.claimLinesBody
        case .settleLine: Self.sharedLines + Self.settleLineBody
        case .freeLines: Self.freeLinesBody
        case .boundLines: Self.sharedLines + Self.boundLinesBody
        case .boundOwners: Self.sharedLines + Self.boundOwnersBody
        case .replayLetters: Self.replayLettersBody
        case .register: Self.checkedTime + Self.sharedRegistrations + Self.registerBody
        case .unregister: Self.checkedTime + Self.sharedRegistrations + Self.unregisterBody
        case .endRegistration: Self.checkedTime + Self.sharedRegistrations + Self.endRegistrationBody
        case .own: Self.ownBody
        case .disown: Self.disownBody
        case .takePushes: Self.takePushesBody
        case .settlePush: Self.settlePushBody
        case .freePushes: Self.freePushesBody
        case .notePush: Self.shared + Self.notePushBody
        case .reservePush: Self.reservePushBody
        }
    }

    /// Refuses the time of another server's clock when the server's own clock differs by more than 500 ms. The time is
    /// the last argument; "" means that there is nothing to compare.
    private static let checkedTime = """
        local given = table.remove(ARGV)
        if given ~= '' then
          local time = redis.call('TIME')
          local difference = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(given)
          if math.abs(difference) > 500 then
            return redis.error_reply(string.format('CLOCKDIFFERS %.0f', difference))
          end
        end

        """

    /// Merges notes, which come as triples. An ack is "a", field, "revision:session"; a sign of life is "h", field,
    /// milliseconds; a milestone is "m", field, milliseconds; the state of pushes is "p", field, "invitation:…"; a ring
    /// check is "c", field, invitation.
    ///
    /// `read` returns the version and the notes' fields as they are, `write` sets the fields of newer notes with the
    /// caller's own. Each is a single command for up to a thousand notes, since calling a command costs a script as
    /// much as the command's work; Lua unpacks a few thousand words at most.
    private static let shared = """
        local function isNewer(kind, known, value)
          if not known then return true end
          if kind == 'a' then
            local oldRevision, oldSession = string.match(known, '^(%d+):(.*)$')
            local revision, session = string.match(value, '^(%d+):(.*)$')
            return oldSession ~= session or tonumber(oldRevision) < tonumber(revision)
          end
          if kind == 'h' or kind == 'c' then return tonumber(known) < tonumber(value) end
          if kind == 'p' then
            return tonumber(string.match(known, '^%d+')) <= tonumber(string.match(value, '^%d+'))
          end
          return true
        end

        local function read(key, first)
          local known = {}
          for start = first - 3, #ARGV, 3000 do
            local names = {'v'}
            for i = math.max(start, first), math.min(start + 2999, #ARGV), 3 do names[#names + 1] = ARGV[i + 1] end
            for place, value in ipairs(redis.call('HMGET', key, unpack(names))) do known[names[place]] = value end
          end
          return known
        end

        local function write(key, first, known, fields)
          for i = first, #ARGV, 3 do
            local field, value = ARGV[i + 1], ARGV[i + 2]
            if isNewer(ARGV[i], known[field], value) then
              known[field] = value
              fields[#fields + 1] = field
              fields[#fields + 1] = value
            end
          end
          for i = 1, #fields, 2000 do redis.call('HSET', key, unpack(fields, i, math.min(i + 1999, #fields))) end
        end

        """

    private static let commitBody = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        if ARGV[7] ~= '' and (now < tonumber(ARGV[6]) or now > tonumber(ARGV[7])) then return {2, 0, now} end
        local owed = tonumber(ARGV[8])
        local known = read(KEYS[1], 10 + owed)
        local version = tonumber(known.v or '0')
        if version ~= tonumber(ARGV[1]) then return {0, version, now} end
        -- Each endpoint has six keys; two keys for pushes may follow.
        if #KEYS % 6 == 5 then
          local held = redis.call('HGET', KEYS[#KEYS], ARGV[5])
          if held then redis.call('HSET', KEYS[#KEYS], ARGV[5], '1' .. string.sub(held, 2))
          else redis.call('ZADD', KEYS[#KEYS - 1], now, ARGV[5]) end
        end
        for i = 4, #KEYS - 5, 6 do
          local added, bytes = 0, 0
          for j = 11, 9 + owed, 2 do
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
            owner = ARGV[10]
            redis.call('ZADD', KEYS[i + 1], now, ARGV[5])
            redis.call('ZADD', KEYS[i + 2], string.match(ARGV[11], ':(%d+):'), ARGV[5])
            redis.call('HSET', KEYS[i + 5], ARGV[5], owner)
          else
            -- All entries of a line count towards its first owner.
            owner = redis.call('HGET', KEYS[i + 5], ARGV[5])
          end
          if owner and bytes > 0 then redis.call('ZINCRBY', KEYS[i + 4], bytes, owner) end
        end
        write(KEYS[1], 10 + owed, known, {'v', version + 1, 'r', ARGV[2]})
        if ARGV[3] ~= '' then redis.call('ZADD', KEYS[2], ARGV[3], ARGV[5])
        elseif version > 0 then redis.call('ZREM', KEYS[2], ARGV[5]) end
        if ARGV[9] == 'over' then redis.call('ZREM', KEYS[3], ARGV[5])
        elseif ARGV[9] ~= '' then redis.call('ZADD', KEYS[3], ARGV[9], ARGV[5]) end
        if ARGV[4] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[4])
        elseif version > 0 then redis.call('PERSIST', KEYS[1]) end
        return {1, version + 1, now}
        """

    /// Coordinators write timelines late, so that the oldest entries are those with the earliest times, and not those
    /// that were written first.
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

    /// Merges the notes by the rules of `shared`, unless the call is gone.
    private static let noteBody = """
        local known = read(KEYS[1], 1)
        if not known.v then return 0 end
        write(KEYS[1], 1, known, {})
        return 1
        """

    /// No request waits for a release. The call may have taken the claim again before the release arrives, and then
    /// holds the claim at a later version.
    private static let releaseBody = """
        local given = 0
        for i, key in ipairs(KEYS) do
          local holder = redis.call('GET', key)
          if holder then
            local id, version = string.match(holder, '^([^:]*):(%d+)$')
            if id == ARGV[2 * i - 1] and tonumber(version) <= tonumber(ARGV[2 * i]) then
              given = given + redis.call('DEL', key)
            end
          end
        end
        return given
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

    /// A live call's score is above every end time (`LiveScore`); live calls are never removed. The text of each entry
    /// begins with the time of the call's creation.
    private static let trimBody = """
        local ended = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(\(LiveScore.base)')
        local excess = #ended - tonumber(ARGV[1])
        if excess <= 0 then return 0 end
        local order = {}
        for i, member in ipairs(ended) do
          local digits = string.match(member, '^%d+') or ''
          -- Numbers as text of the same length, so that comparing needs no parsing.
          order[i] = { string.rep('0', 20 - #digits) .. digits, member }
        end
        table.sort(order, function(a, b)
          if a[1] == b[1] then return a[2] < b[2] end
          return a[1] < b[1]
        end)
        for i = 1, excess do redis.call('ZREM', KEYS[1], order[i][2]) end
        return excess
        """

    /// A device's entry is "online:since:seen:session"; `online` is 2 for an online device whose broker is known, and
    /// the session is then "broker session". The last argument is the broker of the session, or "".
    private static let sharedPresence = """
        local now, broker = tonumber(ARGV[3]), ARGV[#ARGV]
        local function read(entry)
          if not entry then return nil end
          local online, since, seen, session = string.match(entry, '^(%d):(%d+):(%d+):(.*)$')
          local at = ''
          if online == '2' then at, session = string.match(session, '^([^ ]*) (.*)$') end
          return { online = online ~= '0', since = tonumber(since), seen = tonumber(seen), session = session, broker = at }
        end
        local function write(device, online, since, seen, session, at)
          if at and at ~= '' then online, session = 2, at .. ' ' .. session end
          -- The format %s would end at U+0000.
          redis.call('HSET', KEYS[1], device, string.format('%d:%.0f:%.0f:', online, since, seen) .. session)
        end
        local function isSession(known, session)
          return known.session == session and (known.broker == '' or broker == '' or known.broker == broker)
        end

        """

    private static let onlineBody = """
        local device, session, lease = ARGV[1], ARGV[2], tonumber(ARGV[4])
        local over = redis.call('ZSCORE', KEYS[2], device .. ':' .. session)
        if session ~= '' and over and tonumber(over) > now then return 0 end
        local known, received = read(redis.call('HGET', KEYS[1], device)), tonumber(ARGV[7])
        if known and received and received < known.since and not isSession(known, session) then return 2 end
        redis.call('HSETNX', KEYS[3], 'since', string.format('%.0f', now))
        local since = now
        if known and known.online and isSession(known, session) and known.seen + lease > now then since = known.since end
        write(device, 1, since, now, session, broker)
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
        if known and known.online and known.seen + lease > now and known.broker ~= '' and broker ~= ''
          and known.broker ~= broker then
          return known.broker .. ' ' .. known.session
        end
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
        if not known or not known.online or not isSession(known, session) then return 0 end
        write(device, 0, known.since, now, session)
        redis.call('PEXPIRE', KEYS[1], ARGV[6])
        return 1
        """

    private static let renewBody = """
        local known = read(redis.call('HGET', KEYS[1], ARGV[1]))
        if not known or not known.online or known.seen + tonumber(ARGV[4]) <= now then return 0 end
        write(ARGV[1], 1, known.since, now, known.session, known.broker)
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        if known.broker ~= '' then return known.broker end
        return 1
        """

    private static let mendBody = """
        local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
        if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
        if ARGV[3] == '' then redis.call('ZREM', KEYS[1], ARGV[1])
        else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
        return 1
        """

    private static let forgetOverBody = """
        if redis.call('PTTL', KEYS[1]) == -1 then return 0 end
        return redis.call('ZREM', KEYS[2], ARGV[1])
        """

    private static let agreeBody = """
        if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], ARGV[2])
        return 1
        """
}
