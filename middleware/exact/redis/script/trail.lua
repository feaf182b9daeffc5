-- A sliding log, or a rolling day, whose window is 0: used is the sum of its trail, or -1
-- where there is none: a trail without its sum has outlived an account, and counts nothing.

--@ find
if entries[id$] then
	used$ = struct.unpack('<d', entries[id$], 6)
	entries[id$] = ''
end

--@ roll
local ended$, stale$ = 0, used$ < 0
if stale$ then
	used$ = 0
else
	local gone = redis.call('ZRANGEBYSCORE', trail$, '-inf', now)
	for _, m in ipairs(gone) do used$ = used$ - string.match(m, ':(%d+)$') end
	used$, ended$ = math.max(0, used$), #gone
	ended = ended + ended$
end

--@ stand
local stood$, owed$ = '', 0
do
	-- When there is room for 1, and if calls are refused when there is for the first of
	-- those: after it nothing is charged.
	local room = quota$ - used$
	local wants, fit = { math.max(0, -room) + 1 }, cost$ == 0 and calls or math.max(0, math.floor(room / cost$))
	if past == 1 then
		-- After each call, when there is room for 1 again.
		for i = 1, calls do
			local want = math.min(used$ + i * cost$, MOST) + 1 - quota$
			if want > wants[#wants] and want <= used$ then wants[#wants + 1] = want end
		end
	elseif cost$ <= quota$ and fit < calls then
		wants[2] = (fit + 1) * cost$ - room
	end
	local found, freed = used$ > 0 and waits(trail$, used$, ended$, wants, now) or {}, 0
	local parts = {}
	for i, f in ipairs(found) do
		parts[i] = struct.pack('<dd', f[1], f[2] - freed)
		freed = f[2]
	end
	-- A sum without its trail, which was evicted, would count for ever.
	if freed == 0 then used$ = 0 end
	stood$ = struct.pack('<dI2', used$, #parts) .. table.concat(parts)
end

--@ fits
if cost$ > 0 and cost$ > quota$ - used$ - owed$ then fits = false end

--@ hold

--@ charge
owed$ = math.min(owed$ + cost$, MOST - used$)

--@ last
last = math.max(last, untilOf(now, window$))

--@ charged
if stale$ then redis.call('DEL', trail$) end
if ended$ > 0 then redis.call('ZREMRANGEBYSCORE', trail$, '-inf', now) end
if owed$ > 0 then
	local score, c = int(untilOf(now, window$)), owed$
	local before = redis.call('ZRANGEBYSCORE', trail$, score, score)[1]
	if past == 1 and not before and redis.call('ZCARD', trail$) >= PARTS then
		before = redis.call('ZRANGE', trail$, -1, -1)[1] -- the last ends with it
	end
	if before then c = c + string.match(before, ':(%d+)$') end
	redis.call('ZADD', trail$, score, score .. ':' .. int(c))
	if before then redis.call('ZREM', trail$, before) end
	redis.call('EXPIREAT', trail$, expires)
end

--@ swept
if ended$ > 0 then redis.call('ZREMRANGEBYSCORE', trail$, '-inf', now) end

--@ counts
counts = math.max(counts, untilOf(at, window$))

--@ refund
do
	local score = int(untilOf(at, window$))
	local m = cost$ > 0 and not stale$ and now < untilOf(at, window$) and redis.call('ZRANGEBYSCORE', trail$, score, score)[1]
	if m then
		local c = tonumber(string.match(m, ':(%d+)$'))
		local back = math.min(c, cost$)
		-- In this order: a set that is empty for a moment loses its time to live.
		if c > back then redis.call('ZADD', trail$, score, score .. ':' .. int(c - back)) end
		redis.call('ZREM', trail$, m)
		used$ = used$ - back
	end
end

--@ paid
paid[#paid + 1] = 0
