/// The scripts of pushes. A registration is "since:digest:target" under "device/app/platform".
extension RedisScript {
    /// `gone` collects the ended registrations: the name, the begin, and the target's digest of each.
    static let sharedRegistrations = """
        local now, life = tonumber(ARGV[1]), tonumber(ARGV[2])
        local gone = {}
        local function head(value) return string.match(value, '^(%d+):([^:]*):') end
        local function collect(name, value)
          local since, digest = head(value)
          table.insert(gone, name)
          table.insert(gone, since or '0')
          table.insert(gone, digest or '')
        end
        local function drop(name, value)
          redis.call('HDEL', KEYS[1], name)
          collect(name, value)
        end
        -- Removes ended registrations. The key lasts until the last registration ends.
        local function tidy()
          local entries, newest = {}, 0
          local all = redis.call('HGETALL', KEYS[1])
          for i = 1, #all, 2 do
            local since = tonumber(head(all[i + 1]) or 0)
            if since + life <= now then
              drop(all[i], all[i + 1])
            else
              local device, app = string.match(all[i], '^([^/]*)/([^/]*)/')
              table.insert(entries, { name = all[i], value = all[i + 1], since = since, device = device, app = app })
              newest = math.max(newest, since)
            end
          end
          if newest > 0 then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', newest + life - now)) end
          return entries
        end

        """

    /// When there are too many groups, the groups with the oldest newest registrations are removed, but never the group
    /// of the new registration.
    static let registerBody = """
        local name, value = ARGV[3], ARGV[4]
        local device, app = string.match(name, '^([^/]*)/([^/]*)/')
        local former = redis.call('HGET', KEYS[1], name)
        if former then
          local _, before = head(former)
          local _, digest = head(value)
          if before ~= digest then collect(name, former) end
        end
        redis.call('HSET', KEYS[1], name, value)
        local entries = tidy()
        local function hold(group, own, most)
          local groups, newest = {}, {}
          for _, entry in ipairs(entries) do
            if not entry.gone and (group == 'device' or entry.device == device) then
              local of = entry[group]
              if not newest[of] then table.insert(groups, of) end
              newest[of] = math.max(newest[of] or 0, entry.since)
            end
          end
          table.sort(groups, function(a, b)
            if newest[a] == newest[b] then return a < b end
            return newest[a] < newest[b]
          end)
          local excess = #groups - most
          for _, of in ipairs(groups) do
            if excess <= 0 then break end
            if of ~= own then
              excess = excess - 1
              for _, entry in ipairs(entries) do
                if not entry.gone and entry[group] == of and (group == 'device' or entry.device == device) then
                  drop(entry.name, entry.value)
                  entry.gone = true
                end
              end
            end
          end
        end
        hold('app', app, tonumber(ARGV[5]))
        hold('device', device, tonumber(ARGV[6]))
        return gone
        """

    static let unregisterBody = """
        for _, entry in ipairs(tidy()) do
          local device, app, platform = string.match(entry.name, '^([^/]*)/([^/]*)/(.*)$')
          if device == ARGV[3] and (ARGV[4] == '' or platform == ARGV[4]) and (ARGV[5] == '' or app == ARGV[5]) then
            drop(entry.name, entry.value)
          end
        end
        tidy()
        return gone
        """

    static let endRegistrationBody = """
        local known = redis.call('HGET', KEYS[1], ARGV[3])
        if not known then return gone end
        local since, digest = head(known)
        if digest == ARGV[4] and (ARGV[5] == '' or since == ARGV[5]) then drop(ARGV[3], known) end
        tidy()
        return gone
        """

    /// An owner's entry holds the owner, and the beginning of each of its registrations.
    static let ownBody = """
        local ended = {}
        local former = redis.call('HGET', KEYS[1], 'owner')
        if former and former ~= ARGV[1] then
          table.insert(ended, former)
          for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
            if name ~= 'owner' then table.insert(ended, name) end
          end
          redis.call('DEL', KEYS[1])
        end
        redis.call('HSET', KEYS[1], 'owner', ARGV[1], ARGV[2], ARGV[3])
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        return ended
        """

    static let disownBody = """
        if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
        if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 0 end
        redis.call('HDEL', KEYS[1], ARGV[2])
        if redis.call('HLEN', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
        return 1
        """

    /// A holder is "marked:worker"; marked is 0 or 1.
    static let takePushesBody = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local calls = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
        if #calls == 0 then return calls end
        redis.call('SET', KEYS[3], '1', 'PX', ARGV[3])
        for _, call in ipairs(calls) do
          redis.call('ZREM', KEYS[1], call)
          redis.call('HSET', KEYS[2], call, '0:' .. ARGV[1])
        end
        redis.call('PEXPIRE', KEYS[2], ARGV[4])
        return calls
        """

    static let settlePushBody = """
        local held = redis.call('HGET', KEYS[2], ARGV[2])
        if not held or string.sub(held, 3) ~= ARGV[1] or redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
        if string.sub(held, 1, 1) == '1' then
          redis.call('HSET', KEYS[2], ARGV[2], '0:' .. ARGV[1])
          return 2
        end
        redis.call('HDEL', KEYS[2], ARGV[2])
        if ARGV[3] ~= '' then
          local time = redis.call('TIME')
          redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3]), ARGV[2])
        end
        return 1
        """

    static let freePushesBody = """
        if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local held = redis.call('HGETALL', KEYS[2])
        local count = 0
        for i = 1, #held, 2 do
          if string.sub(held[i + 1], 3) == ARGV[1] then
            redis.call('HDEL', KEYS[2], held[i])
            redis.call('ZADD', KEYS[1], now, held[i])
            count = count + 1
          end
        end
        return count
        """

    static let notePushBody = """
        local held = redis.call('HGET', KEYS[2], ARGV[2])
        if not held or string.sub(held, 3) ~= ARGV[1] or redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
        local known = read(KEYS[1], 3)
        if not known.v then return 0 end
        write(KEYS[1], 3, known, {})
        return 1
        """

    /// A member is "id/inviter": an id contains no slash.
    static let reservePushBody = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
        local all, ofInviter = redis.call('ZRANGE', KEYS[1], 0, -1), 0
        for _, member in ipairs(all) do
          local id, inviter = string.match(member, '^([^/]*)/(.*)$')
          if id == ARGV[1] then return 1 end
          if inviter == ARGV[2] then ofInviter = ofInviter + 1 end
        end
        if #all >= tonumber(ARGV[4]) or ofInviter >= tonumber(ARGV[5]) then return 0 end
        redis.call('ZADD', KEYS[1], now, ARGV[1] .. '/' .. ARGV[2])
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return 1
        """
}
