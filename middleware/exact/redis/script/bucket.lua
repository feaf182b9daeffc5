-- A bucket, of tokens or leaky: at is its mark, the time when it will be empty. A cost fills
-- it by interval each; a full one empties in the time empties.

--@ find
if entries[id$] then
	at$ = struct.unpack('<d', entries[id$], 6)
	entries[id$] = ''
end

--@ roll
if at$ <= now or at$ - now > HORIZON then at$ = 0 end

--@ fits
if math.max(0, at$ - now) + cost * interval$ > empties$ then fits = false end

--@ hold
hold = math.max(hold, at$ - latest)

--@ charge
do
	local from = math.max(at$, now)
	at$ = from + math.min(cost, math.floor(math.max(0, now + HORIZON - from) / interval$)) * interval$
end

--@ last
last = math.max(last, at$)

--@ charged

--@ swept

--@ counts
counts = math.max(counts, at + math.max(window$, math.min(cost, math.floor(HORIZON / interval$)) * interval$))

--@ refund
do
	-- Not what has leaked out since.
	local back = math.min(cost, math.floor(HORIZON / interval$)) * interval$ - math.max(0, now - at)
	at$ = at$ - math.max(0, math.min(at$ - now, back))
end
