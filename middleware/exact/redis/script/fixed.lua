-- A fixed window: at is its number, and cur what it counts.

--@ find
if entries[id$] then
	at$, cur$ = struct.unpack('<I4I4', entries[id$], 6)
	entries[id$] = ''
end

--@ roll
do
	local window = div(now, window$)
	if at$ ~= window then at$, cur$ = window, 0 end
end

--@ fits
if cost$ > 0 and cost$ + cur$ > quota$ then fits = false end

--@ hold

--@ charge
cur$ = math.min(cur$ + cost$, MOST)

--@ last
last = math.max(last, (at$ + 1) * window$)

--@ charged

--@ swept

--@ counts
counts = math.max(counts, (div(at, window$) + 1) * window$)

--@ refund
if at$ == div(at, window$) then cur$ = cur$ - math.min(cur$, cost$) end

--@ paid
paid[#paid + 1] = 0
