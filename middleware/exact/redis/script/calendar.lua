-- A window of the calendar: at is the second in which it ends, and cur what it counts. The call says from when to
-- when its own window is. Where another process has other time zones, the later end holds.

--@ find
if entries[id$] then
	at$, cur$ = struct.unpack('<I4I4', entries[id$], 6)
	entries[id$] = ''
end

--@ roll
if at$ * 1000000 <= now then at$, cur$ = 0, 0 end

--@ stand
if now < starts$ or now >= ends$ then return struct.pack('<dd', time, now) end

--@ fits
if cost$ > 0 and cost$ + cur$ > quota$ then fits = false end

--@ hold

--@ charge
-- An end that is near to the beginning of this window is of the one before, which is open for that much longer.
if cost$ > 0 and (at$ == 0 or 2 * at$ >= (starts$ + ends$) / 1000000) then at$ = math.max(at$, ends$ / 1000000) end
cur$ = math.min(cur$ + cost$, MOST)

--@ last
last = math.max(last, at$ * 1000000)

--@ charged

--@ swept

--@ counts
counts = math.max(counts, ends$)

--@ refund
if now < ends$ then cur$ = cur$ - math.min(cur$, cost$) end

--@ paid
paid[#paid + 1] = 0
