-- sliding-log and concurrency: a sorted set with one member a unit, scored by the moment it was
-- taken. A member counts while now < score + span. The two differ in who takes members away before
-- that: nobody, or the request that has ended.
--
-- ARGV  quota  most members that count, 1..100000
--       span   the window, or the life of a lease, in microseconds
local quota, span = argv[a + 2] + 0, argv[a + 3] + 0
a = a + 4
if giving then
  for n = 1, cost < 1000 and cost or 1000 do
    call('ZREM', key, n == 1 and member or member .. ':' .. n)
  end
  cost = 0
end
local total = call('ZCARD', key)
local stale = total > 0 and call('ZCOUNT', key, '-inf', format('%d', now - span)) or 0
local live = total - stale
room = live < quota and quota - live or 0
if cost > quota or cost > 1000 then wait = -1 end
if cost > 0 and cost <= room and wait == 0 then
  ttl, later, reset = ceil(span / 1000) + 1, span, live > 0 and -1 or 0
  -- Members that no longer count are swept once there are enough of them, and some at a time.
  if stale >= 64 or stale * 8 >= quota then sweep = stale < 1000 and stale or 1000 end
elseif live > 0 then
  local over = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] - now
  local ahead = over > 0
  reset = ahead and span or over + span
  if cost > room then
    if wait == 0 then
      local nth = stale + live + cost - quota - 1
      if nth < total - 1 then over = call('ZRANGE', key, nth, nth, 'WITHSCORES')[2] - now end
      wait = over > 0 and span or over + span
    end
    if ahead then
      local early = call('ZRANGEBYSCORE', key, format('(%d', now), '+inf')
      for n = 1, #early do call('ZADD', key, format('%d', now), early[n]) end
      call('PEXPIRE', key, format('%d', ceil(span / 1000) + 1))
    end
  end
end
