-- sliding-window: the units of this window and of the one before, which weighs what of it still
-- lies within one span before now. Windows start at multiples of the span since the epoch.
--
-- ARGV   quota  most units, 1..10^12
--        span   the window in microseconds
--        grain  microseconds in which the weight moves; more than 1 when quota * span > 2^52
-- VALUE  `start cur prev`
local quota, span, grain = argv[a + 2] + 0, argv[a + 3] + 0, argv[a + 4] + 0
a = a + 5
local start, cur, prev, mend = now - now % span, 0, 0, false
local old = call('GET', key)
if old then
  local s, c, p = match(old, '^(%d+) (%d+) (%d+)$')
  s = s + 0
  if s >= start then
    cur, prev, mend = c + 0, p + 0, s > start
  elseif s + span == start then
    prev = c + 0
  end
end
if giving then
  local back = cost < cur and cost or cur
  cur = cur - back
  back = cost - back
  prev = back < prev and prev - back or 0
  cost = 0
end
-- What an earlier, larger quota let in counts as this quota at most.
local c, p = cur < quota and cur or quota, prev < quota and prev or quota
local steps = ceil(span / grain)
local left = steps - floor((now - start) / grain)
room = quota - c - ceil(p * left / steps)
if room < 0 then room = 0 end
if cost > room then
  if cost > quota then
    wait = -1
  elseif c + cost <= quota then -- once enough of the window before has slid out
    local step = (steps - floor((quota - c - cost) * steps / p)) * grain
    wait = start - now + (step < span and step or span)
  else -- once this window is the one before, and enough of it has slid out
    local step = (steps - floor((quota - cost) * steps / c)) * grain
    wait = start - now + span + (step < span and step or span)
  end
end
reset = c > 0 and start + 2 * span - now or p > 0 and start + span - now or 0
later = reset
if wait == 0 and cost > 0 then cur, later = cur + cost, start + 2 * span - now end
if cost > 0 and (wait == 0 or mend) or giving and old then
  value = format('%d %d %d', start, cur, prev)
  ttl = ceil((now + later) / 1000) - floor(now / 1000) + 1
end
