-- A sliding window: at is its number, cur what it counts, and prev what the one before does.

--@ find
if entries[id$] then
	at$, cur$, prev$ = struct.unpack('<I4I4I4', entries[id$], 6)
	entries[id$] = ''
end

--@ roll
do
	local window = div(now, window$)
	if at$ ~= window then
		at$, cur$, prev$ = window, 0, at$ == window - 1 and cur$ or 0
	end
end

--@ fits
if cost$ > 0 and cost$ + cur$ + prev$ > quota$ and cost$ > quota$ - cur$ - muldivup(prev$, window$ - (now - at$ * window$), window$) then fits = false end

--@ hold

--@ charge
cur$ = math.min(cur$ + cost$, MOST)

--@ last
last = math.max(last, (at$ + 2) * window$)

--@ charged

--@ swept

--@ counts
counts = math.max(counts, (div(at, window$) + 2) * window$)

--@ refund
do
	local ago = at$ - div(at, window$)
	if ago == 0 then
		cur$ = cur$ - math.min(cur$, cost$)
	elseif ago == 1 then
		prev$ = prev$ - math.min(prev$, cost$)
	end
end

--@ paid
paid[#paid + 1] = 0
