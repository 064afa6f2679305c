if value and (giving or wait ~= 0) then -- given back, or mended: now, whatever the others say
  if later == 0 then call('DEL', key) else call('SET', key, value, 'PX', format('%d', ttl)) end
  reset, ttl = later, nil
end
if wait ~= 0 and not shadow then go = false end
if ttl and go and i == #KEYS then -- the last claim need not be remembered
  take(key, value, ttl, cost, sweep)
  room, reset, ttl = room - cost, later, nil
end
if i == 1 then
  reply = { wait == 0 and 1 or 0, room, wait, reset }
else
  local r = 4 * i
  reply[r - 3], reply[r - 2], reply[r - 1], reply[r] = wait == 0 and 1 or 0, room, wait, reset
end
if ttl then plan[i] = { value, ttl, cost, sweep, later } end
