for i = 1, #KEYS do
  local r, p = 4 * i, 5 * i
  local ttl = plan[p - 4]
  if ttl then
    local key, value, cost, later, sweep = KEYS[i], plan[p - 3], plan[p - 2], plan[p - 1], plan[p]
    if go then
      if value then
        call('SET', key, value, 'PX', ttl)
      else -- members: first what a full Redis refuses, so that it refuses before anything is done
        call('ZADD', key, now, member)
        for n = 2, cost do call('ZADD', key, now, member .. ':' .. n) end
        call('PEXPIRE', key, ttl)
        if sweep > 0 then call('ZREMRANGEBYRANK', key, 0, sweep - 1) end
      end
      reply[r - 2], reply[r] = reply[r - 2] - cost, later
    elseif reply[r] < 0 then -- the newest member was not asked for, as it seemed not to matter
      reply[r] = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] + later - now
      if reply[r] > later then reply[r] = later end
    end
  end
end
return reply
