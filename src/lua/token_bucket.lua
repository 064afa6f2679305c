-- token-bucket: what of the burst is used, at a moment.
--
-- VALUE  `used at pace token`: units, the moment, and the measure they are in
if old then
  local u, at, p, t = match(old, '^(%d+) (%d+) (%d+) (%d+)$')
  used, at, p, t = u + 0, at + 0, p + 0, t + 0
  mend = at > now
  local same = p == pace and t == token
  if same and used > full then used = full end -- the burst has been lowered
  if at < now then
    used = used - (now - at) * p
    if used < 0 then used = 0 end
  end
  if not same then -- the rate has changed: as many tokens, in the new measure
    mend = true
    local whole = floor(used / t)
    used = whole * token + ceil((used - whole * t) * token / t)
    if used > full then used = full end
  end
end
