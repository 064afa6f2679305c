-- One decision over every limit of a request: all or nothing.
--
-- KEYS[i]  the state of claim i; all different
-- ARGV     mode      take | give
--          member    names this request among all others, [A-Za-z0-9_-]
--          then per claim, in the order of KEYS:
--          code      the algorithm, see the branches; negative in shadow mode, where a refusal
--                    refuses nobody
--          cost      units, 0 or more
--          ...       the algorithm's numbers, see its file; integers
-- returns  per claim, one after the other: admitted 0|1, remaining, wait_us, reset_us
--          wait_us   refused before it, admitted at it; 0 now; -1 never
--          reset_us  until the whole quota is there; 0 now
--
-- take looks at every claim first. When all that are not in shadow mode admit, every claim that
-- admits takes. A refusal takes nothing and writes nothing, but for mending what would make its wait
-- wrong: state from the future, left by a master whose clock was ahead, is pulled back to now; what
-- a bucket has used is brought from another rate to the one that holds now.
-- give takes back what a take of the same member and cost took. It never creates a key.
--
-- Each algorithm looks with `key`, `cost` and its numbers, and leaves
--   room   units one burst could take now, 0..quota
--   wait   as above, for this cost
--   reset  as above, before this take
--   later  as reset, after this take
--   value  the string that says so after this take; none for a set of members
--   ttl    how long that matters, in milliseconds: when given, there is something to take
local call, argv, floor, ceil = redis.call, ARGV, math.floor, math.ceil
local format, match = string.format, string.match
local giving, member = argv[1] == 'give', argv[2]
local go, a, reply, plan = not giving, 3, nil, {}

local function take(key, value, ttl, cost, sweep)
  ttl = format('%d', ttl)
  if value then
    call('SET', key, value, 'PX', ttl)
  else -- members: first what a full Redis refuses, so that it refuses before anything is done
    local score = format('%d', now)
    call('ZADD', key, score, member)
    for n = 2, cost do call('ZADD', key, score, member .. ':' .. n) end
    call('PEXPIRE', key, ttl)
    if sweep > 0 then call('ZREMRANGEBYRANK', key, 0, sweep - 1) end
  end
end

