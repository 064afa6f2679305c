-- What the three scripts share.
-- KEYS[1]  the control key: words such as `policy=17 shadow`
-- KEYS[2]  the list: a hash of NUMBER -> "TIME BEFORE NOTE", and `last` -> the highest number given
-- ARGV[1]  what the key of every policy begins with; it has the tag of KEYS[1]
local control, list, head = KEYS[1], KEYS[2], ARGV[1]

local function read()
  return redis.call('GET', control) or ''
end

-- The number in force, 0 for none: as the filter reads it.
local function in_force(text)
  local number = 0
  for word in text:gmatch('%S+') do
    local digits = word:match('^policy=(%d+)$')
    if digits then number = tonumber(digits) end
  end
  return number
end

-- Puts `word`, or nothing when it is '', in the place of the words that `drops` is true for. Words that
-- a newer command wrote stay. Gives what stands there now.
local function replace(text, drops, word)
  local words = {}
  if word ~= '' then words[1] = word end
  for other in text:gmatch('%S+') do
    if not drops(other) then words[#words + 1] = other end
  end
  local now = table.concat(words, ' ')
  if now == '' then
    redis.call('DEL', control)
  else
    redis.call('SET', control, now)
  end
  return now
end

local function is_policy(word)
  return word:sub(1, 7) == 'policy='
end

local function integer(number)
  return string.format('%d', number)
end
