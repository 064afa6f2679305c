-- ARGV[2]  the number to go back to, 0 for each proxy's own policy, -1 for the one before
-- returns  {'done' | 'none' | 'unknown' | 'missing', number before, number now, the words}
local to = tonumber(ARGV[2])
local text = read()
local from = in_force(text)
if to < 0 then
  if from == 0 then return {'none', 0, 0, text} end
  local entry = redis.call('HGET', list, integer(from))
  local before = entry and entry:match('^%d+ (%d+)')
  if not before then return {'unknown', from, 0, text} end
  to = tonumber(before)
end
if to == 0 then
  return {'done', from, 0, replace(text, is_policy, '')}
end
if redis.call('EXISTS', head .. integer(to)) == 0 then return {'missing', from, to, text} end
return {'done', from, to, replace(text, is_policy, 'policy=' .. integer(to))}
