-- token-bucket: what of the burst is used, at a moment; it comes back at a steady rate.
--
-- ARGV   burst  most tokens, 1..10^12
--        pace   units that come back each microsecond
--        token  units of one token; burst * token <= 2^52
-- VALUE  `used at pace token`: units, the moment, and the measure they are in
local burst, pace, token = argv[a + 2] + 0, argv[a + 3] + 0, argv[a + 4] + 0
a = a + 5
local full, used, mend = burst * token, 0, false
local old = call('GET', key)
if old then
  local u, at, p, t = match(old, '^(%d+) (%d+) (%d+) (%d+)$')
  used, at, p, t = u + 0, at + 0, p + 0, t + 0
  mend = at > now
  local same = p == pace and t == token
  if same and used > full then used = full end -- the burst has been lowered
  if at < now then
    used = used - (now - at) * p
    if used < 0 then used = 0 end
  end
  if not same then -- the rate has changed: as many tokens, in the new measure
    mend = true
    local whole = floor(used / t)
    used = whole * token + ceil((used - whole * t) * token / t)
    if used > full then used = full end
  end
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
  value = format('%d %d %d %d', used, now, pace, token)
  ttl = ceil(later / 1000) + 1
end
