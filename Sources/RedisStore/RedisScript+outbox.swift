/// The scripts of the outbox. A line is a sorted set of "number:time:record", by number.
extension RedisScript {
    /// An endpoint that is off stays off, unless its URL has changed. The value is "off backlog bytes url patterns".
    static let keepEndpointBody = """
        local known = redis.call('HGET', KEYS[1], ARGV[1])
        if ARGV[6] == 'lost' and (known or redis.call('HEXISTS', KEYS[1], ARGV[5]) == 1) then return 0 end
        local off, url
        if known then off, url = string.match(known, '^(%d) %d+ %d+ (%S*)') end
        if url ~= ARGV[2] then
          off = '0'
          redis.call('HDEL', KEYS[1], ARGV[4])
        end
        redis.call('HSET', KEYS[1], ARGV[1], off .. ' ' .. ARGV[3])
        redis.call('HDEL', KEYS[1], ARGV[5])
        return 1
        """

    /// The field of the removal is written only for an endpoint that existed, so that their number is bounded.
    static let forgetEndpointBody = """
        if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
        redis.call('HDEL', KEYS[1], ARGV[2])
        redis.call('HSET', KEYS[1], ARGV[3], '1')
        return 1
        """

    static let turnOffEndpointBody = """
        local known = redis.call('HGET', KEYS[1], ARGV[1])
        local url = known and string.match(known, '^%d %d+ %d+ (%S*)')
        if url ~= ARGV[2] then return 0 end
        redis.call('HSET', KEYS[1], ARGV[1], '1' .. string.sub(known, 2))
        return 1
        """

    static let turnOnEndpointBody = """
        local known = redis.call('HGET', KEYS[1], ARGV[1])
        if not known then return 0 end
        redis.call('HSET', KEYS[1], ARGV[1], '0' .. string.sub(known, 2))
        return 1
        """

    static let noteAttemptBody = """
        local known = redis.call('HGET', KEYS[1], ARGV[1])
        local url = known and string.match(known, '^%d %d+ %d+ (%S*)')
        if url ~= ARGV[2] then return 0 end
        redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
        return 1
        """

    static let claimLinesBody = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local lines = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
        if #lines == 0 then return lines end
        redis.call('SET', KEYS[3], '1', 'PX', ARGV[3])
        for _, line in ipairs(lines) do
          redis.call('ZREM', KEYS[1], line)
          redis.call('HSET', KEYS[2], line, ARGV[1])
        end
        return lines
        """

    /// `shorten` takes an entry out of a line; an entry that does not become a dead letter is deleted. `count` adds
    /// bytes to an owner's bytes.
    static let sharedLines = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local function split(entry) return string.match(entry, '^(%d+):(%d+):(.*)$') end
        local function count(owners, owner, bytes)
          -- In a damaged store the entry in `whose` may be missing; then no user's bytes are counted.
          if owner and tonumber(redis.call('ZINCRBY', owners, bytes, owner)) <= 0 then redis.call('ZREM', owners, owner) end
        end
        local function shorten(line, counts, owners, whose, entry, dead, texts, id)
          local number, _, record = split(entry)
          local owner = redis.call('HGET', whose, id)
          redis.call('ZREM', line, entry)
          redis.call('HINCRBY', counts, 'w', -1)
          if not dead then
            redis.call('HINCRBY', counts, 'b', -#record)
            count(owners, owner, -#record)
            return #record
          end
          redis.call('ZADD', dead, now, number .. ':' .. id)
          -- A dead letter of an earlier call with the same id is replaced.
          local former = redis.call('HGET', texts, number .. ':' .. id)
          if former then
            local _, _, text = split(former)
            redis.call('HINCRBY', counts, 'b', -#text)
            count(owners, redis.call('HGET', whose, number .. ':' .. id), -#text)
          else
            redis.call('HINCRBY', counts, 'd', 1)
          end
          if owner then redis.call('HSET', whose, number .. ':' .. id, owner)
          else redis.call('HDEL', whose, number .. ':' .. id) end
          redis.call('HSET', texts, number .. ':' .. id, entry)
          return 0
        end
        -- Updates a line after its first entry was removed.
        local function follow(id, line, age, attempts, due, whose)
          redis.call('HDEL', attempts, id)
          local following = redis.call('ZRANGE', line, 0, 0)[1]
          if following then
            local _, made = split(following)
            redis.call('ZADD', age, made, id)
          else
            redis.call('ZREM', age, id)
            redis.call('ZREM', due, id)
            redis.call('HDEL', whose, id)
          end
          return following
        end
        local function delete(name, counts, dead, texts, owners, whose)
          local _, _, record = split(redis.call('HGET', texts, name) or '0:0:')
          redis.call('ZREM', dead, name)
          redis.call('HDEL', texts, name)
          redis.call('HINCRBY', counts, 'd', -1)
          redis.call('HINCRBY', counts, 'b', -#record)
          count(owners, redis.call('HGET', whose, name), -#record)
          redis.call('HDEL', whose, name)
          return #record
        end

        """

    static let settleLineBody = """
        local line, due, age, holders, attempts, lease, counts, dead, texts, owners, whose = unpack(KEYS)
        local id = ARGV[2]
        if redis.call('EXISTS', lease) == 0 or redis.call('HGET', holders, id) ~= ARGV[1] then return 0 end
        if ARGV[4] == 'again' or ARGV[4] == 'released' then
          if ARGV[4] == 'again' then redis.call('HSET', attempts, id, ARGV[6]) end
          redis.call('HDEL', holders, id)
          redis.call('ZADD', due, now + tonumber(ARGV[5]), id)
          return 1
        end
        local entry = redis.call('ZRANGEBYSCORE', line, ARGV[3], ARGV[3])[1]
        if entry then shorten(line, counts, owners, whose, entry, ARGV[4] == 'dead' and dead, texts, id) end
        local following = follow(id, line, age, attempts, due, whose)
        if following then return following end
        redis.call('HDEL', holders, id)
        return 1
        """

    static let freeLinesBody = """
        if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local held = redis.call('HGETALL', KEYS[1])
        local count = 0
        for i = 1, #held, 2 do
          if held[i + 1] == ARGV[1] then
            redis.call('HDEL', KEYS[1], held[i])
            redis.call('ZADD', KEYS[2], now, held[i])
            count = count + 1
          end
        end
        return count
        """

    static let boundLinesBody = """
        local age, holders, attempts, counts, dead, texts, due, owners, whose = unpack(KEYS, 1, 9)
        local becameDead, deleted = 0, 0
        for i = 3, #ARGV do
          local id, line = ARGV[i], KEYS[i + 7]
          local entry = redis.call('HEXISTS', holders, id) == 0 and redis.call('ZRANGE', line, 0, 0)[1]
          if entry then
            shorten(line, counts, owners, whose, entry, dead, texts, id)
            follow(id, line, age, attempts, due, whose)
            becameDead = becameDead + 1
          end
        end
        local names = redis.call('ZRANGEBYSCORE', dead, '-inf', ARGV[2], 'LIMIT', 0, 256)
        for _, name in ipairs(names) do delete(name, counts, dead, texts, owners, whose) end
        deleted = #names
        if tonumber(ARGV[1]) > 0 then
          names = redis.call('ZRANGE', dead, 0, tonumber(ARGV[1]) - 1)
          for _, name in ipairs(names) do delete(name, counts, dead, texts, owners, whose) end
          deleted = deleted + #names
        end
        return {becameDead, deleted}
        """

    static let boundOwnersBody = """
        local age, holders, attempts, counts, dead, texts, due, owners, whose = unpack(KEYS, 1, 9)
        local at, budgets, deleted = 1, {}, 0
        local function word()
          at = at + 1
          return ARGV[at - 1]
        end
        for _ = 1, tonumber(word()) do
          local owner = word()
          budgets[owner] = tonumber(word())
        end
        local function isBeyond(id) return (budgets[redis.call('HGET', whose, id) or ''] or 0) > 0 end
        local function pay(owner, bytes)
          budgets[owner or ''] = budgets[owner or ''] - bytes
          deleted = deleted + 1
        end
        for _ = 1, tonumber(word()) do
          local name = word()
          if redis.call('HEXISTS', texts, name) == 1 and isBeyond(name) then
            local owner = redis.call('HGET', whose, name)
            pay(owner, delete(name, counts, dead, texts, owners, whose))
          end
        end
        local first = at
        while at <= #ARGV do
          local line, id = KEYS[10 + at - first], word()
          local most = deleted + 64
          while deleted < most and redis.call('HEXISTS', holders, id) == 0 and isBeyond(id) do
            local entry = redis.call('ZRANGE', line, 0, 0)[1]
            if not entry then break end
            local owner = redis.call('HGET', whose, id)
            pay(owner, shorten(line, counts, owners, whose, entry, false, texts, id))
            follow(id, line, age, attempts, due, whose)
          end
        end
        return deleted
        """

    static let replayLettersBody = """
        local line, due, age, counts, dead, texts, holders, attempts, whose = unpack(KEYS)
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local id, count = ARGV[1], 0
        local former = redis.call('ZRANGE', line, 0, 0)[1]
        for i = 2, #ARGV do
          local name = ARGV[i] .. ':' .. id
          local entry = redis.call('HGET', texts, name)
          if entry then
            redis.call('ZREM', dead, name)
            redis.call('HDEL', texts, name)
            redis.call('HINCRBY', counts, 'd', -1)
            redis.call('HINCRBY', counts, 'w', redis.call('ZADD', line, ARGV[i], entry))
            local owner = redis.call('HGET', whose, name)
            if owner then redis.call('HSETNX', whose, id, owner) end
            redis.call('HDEL', whose, name)
            count = count + 1
          end
        end
        if count > 0 then
          local first = redis.call('ZRANGE', line, 0, 0)[1]
          -- The new first entry has not been tried.
          if first ~= former and redis.call('HEXISTS', holders, id) == 0 then
            redis.call('ZADD', due, now, id)
            redis.call('HDEL', attempts, id)
          end
          local _, made = string.match(first, '^(%d+):(%d+):')
          redis.call('ZADD', age, made, id)
        end
        return count
        """
}
