-- How much room `used` leaves, and what is used after this.
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
  local first, second = used, now
  if code == 8 then -- gcra
    second = used % pace
    first = now + (used - second) / pace
  end
  value = format('%d %d %d %d', first, second, pace, token)
  ttl = ceil(later / 1000) + 1
end
