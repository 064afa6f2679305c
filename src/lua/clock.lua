-- now: whole microseconds since the Unix epoch, by the clock of the Redis that runs this. A double
-- holds them exactly until the year 2255. Tests put clock_test.lua here instead.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 3 and 4: TIME, then write
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
