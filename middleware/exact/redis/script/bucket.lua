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
if cost$ > 0 and math.max(0, at$ - now) + cost$ * interval$ > empties$ then fits = false end

--@ hold
hold = math.max(hold, at$ - latest)

--@ charge
if cost$ > 0 then
	local from = math.max(at$, now)
	at$ = from + math.min(cost$, math.floor(math.max(0, now + HORIZON - from) / interval$)) * interval$
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
	local back = math.min(cost$, math.floor(HORIZON / interval$)) * interval$ - math.max(0, now - at)
	at$ = at$ - math.max(0, math.min(at$ - now, back))
end

--@ open
local line$
if booked > 0 then
	line$ = lines[id$] or { math.max(at$, now) }
	lines[id$] = nil
	if booked <= now then
		at$, line$ = closed(line$, now, at$), nil
	else
		pass(line$, now)
	end
end

--@ line
reply[#reply + 1] = packed(line$)

--@ possible
if cost * interval$ > empties$ then fits = false end

--@ first
do
	local at = first(line$, moment, at$, cost * interval$, empties$)
	if at > moment then moment, moved = at, true end
end

--@ late
late = math.max(late, math.max(moment, at$) + cost * interval$ - HORIZON)

--@ begin
line$ = { math.max(at$, now) }

--@ place
do
	local from
	from, at$ = placed(line$, moment, at$, cost * interval$)
	if paid then paid[#paid + 1] = math.max(from, now) - moment end
end

--@ paid
paid[#paid + 1] = math.max(at$, now) - now

--@ kept
parts[#parts + 1] = struct.pack('<I4', id$) .. packed(line$)

--@ was
local was$ = at$

--@ back
do
	local from, to
	if whole then
		from = at + from$
		to = math.max(from, at)
		to = to + math.min(whole$, math.floor(math.max(0, at + HORIZON - to) / interval$)) * interval$
		if cost$ < whole$ then from = math.max(from, to - cost$ * interval$) end
	else
		-- The last of what was charged before any was booked, and not what has leaked out since.
		to = line$[1]
		local back = math.min(cost$, math.floor(HORIZON / interval$)) * interval$ - math.max(0, now - at)
		from = to - math.max(0, math.min(to - now, back))
		line$[1] = from
	end
	at$ = freed(line$, from, to, was$)
	if at$ <= now then at$ = 0 end
	quiet = quiet and #line$ == 1 and at$ <= line$[1]
end
