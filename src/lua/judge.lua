if value and (giving or wait ~= 0) then -- given back, or mended: now, whatever the others say
  if later == 0 then call('DEL', key) else call('SET', key, value, 'PX', ttl) end
  reset, ttl = later, nil
end
if wait ~= 0 and not shadow then go = false end
local r, p = 4 * i, 5 * i
reply[r - 3], reply[r - 2], reply[r - 1], reply[r] = wait == 0 and 1 or 0, room, wait, reset
if ttl then plan[p - 4], plan[p - 3], plan[p - 2], plan[p - 1], plan[p] = ttl, value, cost, later, sweep end
