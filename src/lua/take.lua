for i, kept in pairs(plan) do
  local value, ttl, cost, sweep, later = kept[1], kept[2], kept[3], kept[4], kept[5]
  local r = 4 * i
  if go then
    take(KEYS[i], value, ttl, cost, sweep)
    reply[r - 2], reply[r] = reply[r - 2] - cost, later
  elseif reply[r] < 0 then -- the newest member was not asked for, as it seemed not to matter
    local left = call('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')[2] + later - now
    reply[r] = left < later and left or later
  end
end
return reply
