-- Virtual time for tests: now is the last argument, in microseconds. Redis's own expiry must not
-- meddle: lives are kept aside, and a key is gone from the first moment at which Redis might drop it.
local now = tonumber(table.remove(ARGV))
local redis = {
  call = function(command, key, ...)
    local rest = { ... }
    local life
    if command == 'PEXPIRE' then
      life = tonumber(rest[1])
    elseif command == 'SET' then
      assert(rest[2] == 'PX')
      life = tonumber(rest[3])
      redis.call('SET', key, rest[1])
    else
      return redis.call(command, key, ...)
    end
    assert(life >= 1 and life % 1 == 0)
    redis.call('HSET', 'lives', key, string.format('%d %d', now + (life - 1) * 1000 + 1, life))
  end,
}
for i = 1, #KEYS do
  local life = redis.call('HGET', 'lives', KEYS[i])
  if life and tonumber(string.match(life, '^%d+')) <= now then redis.call('DEL', KEYS[i]) end
end
