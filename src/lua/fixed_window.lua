-- fixed-window: the units of one window, and when it ends.
--
-- ARGV   quota  most units, 1..10^12
--        clock: span    the window in microseconds, from multiples of it since the epoch
--               offset  microseconds added to UTC, may be negative
--        first: span    the window in microseconds, from its first unit
--        month: offset  the calendar month
-- VALUE  `end count`
local quota, ends = argv[a + 2] + 0
if code == 4 then
  local span = argv[a + 3] + 0
  ends = now + span - (now + argv[a + 4]) % span
  a = a + 5
elseif code == 5 then
  ends = now + argv[a + 3]
  a = a + 4
else
  -- The civil date of now, counted in years that begin in March, so that a leap day is the last.
  local offset = argv[a + 3] + 0
  local day = floor((now + offset) / 86400000000) + 719468
  local era = floor(day / 146097)
  local doe = day - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local month = floor((5 * doy + 2) / 153) -- 0 is March
  -- The first of the next month, as a day of the same year; after February, the next year's first.
  local first = month < 11 and floor((153 * (month + 1) + 2) / 5) or 365
  if month == 11 then
    local y = yoe + 1
    if y % 4 == 0 and (y % 100 ~= 0 or y % 400 == 0) then first = 366 end
  end
  ends = (day - doy + first - 719468) * 86400000000 - offset
  a = a + 4
end
local count, mend = 0, false
local old = call('GET', key)
if old then
  local e, c = match(old, '^(%d+) (%d+)$')
  e = e + 0
  if e > now then
    count, mend = c + 0, e > ends
    if code == 5 and not mend then ends = e end
  end
end
if giving then
  count = cost < count and count - cost or 0
  cost = 0
end
room = count < quota and quota - count or 0
if cost > room then wait = cost > quota and -1 or ends - now end
reset = count > 0 and ends - now or 0
later = reset
if wait == 0 and cost > 0 then count, later = count + cost, ends - now end
if cost > 0 and (wait == 0 or mend) or giving and old then
  value = format('%d %d', ends, count)
  ttl = ceil(ends / 1000) - floor(now / 1000) + 1
end
