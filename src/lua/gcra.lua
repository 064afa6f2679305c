-- gcra: the moment when the whole burst is there again, which a take pushes further away.
--
-- VALUE  `at part pace token`: whole microseconds, and the units that come in the one after;
--        the measure both are in
if old then
  local at, part, p, t = match(old, '^(%d+) (%d+) (%d+) (%d+)$')
  p, t = p + 0, t + 0
  used = (at - now) * p + part
  if used < 0 then used = 0 end
  if t ~= token or p ~= pace then -- the rate has changed: as many tokens, in the new measure
    mend = true
    if used > 4503599627370496 then used = 4503599627370496 end -- 2^52, more than any bucket has
    local whole = floor(used / t)
    used = whole * token + ceil((used - whole * t) * token / t)
  end
  -- The burst has been lowered, or the moment comes from the future.
  if used > full then used, mend = full, true end
end
