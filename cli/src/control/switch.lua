-- ARGV[2]  'on' | 'off'
-- returns  {the words before, the words now}
local text = read()
local function is_shadow(word) return word == 'shadow' end
if ARGV[2] == 'off' then return {text, replace(text, is_shadow, '')} end
for word in text:gmatch('%S+') do
  if is_shadow(word) then return {text, text} end
end
return {text, replace(text .. ' shadow', function() return false end, '')}
