-- ARGV[2]  the policy
-- ARGV[3]  a note
-- ARGV[4]  how many of the last policies stay
-- returns  {number, number before, 1 when it was in force already, the words}
local policy, note, kept = ARGV[2], ARGV[3], tonumber(ARGV[4])
local text = read()
local before = in_force(text)
if before > 0 and redis.call('GET', head .. integer(before)) == policy then
  return {before, before, 1, text}
end

-- Never a number that anybody may know already, even when the list is lost.
local number = math.max(tonumber(redis.call('HGET', list, 'last') or '0'), before) + 1
while redis.call('EXISTS', head .. integer(number)) == 1 do number = number + 1 end

redis.call('SET', head .. integer(number), policy)
local time = redis.call('TIME')[1]
redis.call('HSET', list, 'last', integer(number),
  integer(number), time .. ' ' .. integer(before) .. ' ' .. note)
local now = replace(text, is_policy, 'policy=' .. integer(number))

local numbers = {}
for _, field in ipairs(redis.call('HKEYS', list)) do
  local known = tonumber(field)
  if known then numbers[#numbers + 1] = known end
end
table.sort(numbers, function(a, b) return a > b end)
for place, old in ipairs(numbers) do
  if place > kept and old ~= before then
    redis.call('DEL', head .. integer(old))
    redis.call('HDEL', list, integer(old))
  end
end
return {number, before, 0, now}
