local key, code, cost = KEYS[i], argv[a] + 0, argv[a + 1] + 0
local room, wait, reset, sweep, later, value, ttl = 0, 0, 0, 0
local shadow = code < 0
if shadow then code = -code end
