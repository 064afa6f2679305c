-- gcra: the moment when the whole burst is there again, which a take pushes further away.
--
-- ARGV   burst  most tokens, 1..10^12
--        pace   units that come back each microsecond
--        token  units of one token; burst * token <= 2^52
-- VALUE  `at part pace token`: whole microseconds, and the units that come in the one after;
--        the measure both are in
local burst, pace, token = argv[a + 2] + 0, argv[a + 3] + 0, argv[a + 4] + 0
a = a + 5
local full, used, mend = burst * token, 0, false
local old = call('GET', key)
if old then
  local at, part, p, t = match(old, '^(%d+) (%d+) (%d+) (%d+)$')
  p, t = p + 0, t + 0
  used = (at - now) * p + part
  if used < 0 then used = 0 end
  if t ~= token or p ~= pace then -- the rate has changed: as many tokens, in the new measure
    mend = true
    if used > 4503599627370496 then used = 4503599627370496 end -- 2^52, more than any bucket has
    local whole = floor(used / t)
    used = whole * token + ceil((used - whole * t) * token / t)
  end
  -- The burst has been lowered, or the moment comes from the future.
  if used > full then used, mend = full, true end
end
if giving then
  used = cost * token < used and used - cost * token or 0
  cost = 0
end
room = floor((full - used) / token)
reset = ceil(used / pace)
later = reset
if cost > room then
  wait = cost > burst and -1 or ceil((used + cost * token - full) / pace)
elseif cost > 0 then
  used = used + cost * token
  later = ceil(used / pace)
end
if cost > 0 and (wait == 0 or mend) or giving and old then
  local part = used % pace
  value = format('%d %d %d %d', now + (used - part) / pace, part, pace, token)
  ttl = ceil(later / 1000) + 1
end
