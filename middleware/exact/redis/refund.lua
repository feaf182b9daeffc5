-- refund: what a receipt says, once, while it counts.
--
-- KEYS: the account, the mark of the receipt, the account's trails.
-- ARGV: serial, time and cost of the receipt, the number of limits, the limits.
-- Returns 1, or 0 if there is nothing to give back.

local serial, at, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local list = limits(5, tonumber(ARGV[4]))
local trails = {}
for i = 3, #KEYS do trails[#trails + 1] = KEYS[i] end
local now, last, expires, _, astray = load(KEYS[1], trails, list, clock())

local counts, ends = false, 0
for _, l in ipairs(list) do
	if l.kind == LOG or l.kind == DAY then
		l.ends = until_(l, at)
	elseif l.kind == GCRA then
		l.ends = at + l.window
	else
		l.ends = (div(at, l.window) + (l.kind == SLIDING and 2 or 1)) * l.window
	end
	counts = counts or now < l.ends
	ends = math.max(ends, l.ends)
end
if astray or at > now or not counts or serial < 1 or serial > last or redis.call('EXISTS', KEYS[2]) == 1 then return { 0 } end

redis.call('SET', KEYS[2], 1, 'PXAT', math.ceil(ends / 1000) + 60000)
for _, l in ipairs(list) do
	if l.kind == GCRA then
		-- But for what has leaked out since.
		local back = math.min(cost * l.interval, l.empties) - math.max(0, now - at)
		l.at = l.at - math.max(0, math.min(l.at - now, back))
	elseif l.kind == LOG or l.kind == DAY then
		local score = int(l.ends)
		local m = now < l.ends and redis.call('ZRANGEBYSCORE', l.key, score, score)[1]
		if m and not l.stale then
			local c = tonumber(string.match(m, ':(%d+)$'))
			local back = math.min(c, cost)
			-- In this order: a set that is empty for a moment loses its time to live.
			if c > back then redis.call('ZADD', l.key, score, score .. ':' .. (c - back)) end
			redis.call('ZREM', l.key, m)
			l.used = l.used - back
		end
	else
		local ago = l.at - div(at, l.window)
		if ago == 0 then
			l.cur = l.cur - math.min(l.cur, cost)
		elseif ago == 1 then
			l.prev = l.prev - math.min(l.prev, cost)
		end
	end
end
redis.call('HSET', KEYS[1], unpack(fields(list, now, last, expires)))
return { 1 }
