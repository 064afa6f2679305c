-- What token-bucket and gcra have in common: a burst that comes back at a steady rate. Each reads its
-- value into `used` between this and bucket_take.lua.
--
-- ARGV   burst  most tokens, 1..10^12
--        pace   units that come back each microsecond
--        token  units of one token; burst * token <= 2^52
local burst, pace, token = argv[a + 2] + 0, argv[a + 3] + 0, argv[a + 4] + 0
a = a + 5
local full, used, mend = burst * token, 0, false
local old = call('GET', key)
