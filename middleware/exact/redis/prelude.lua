-- What an account is, and how a limit rolls: the arithmetic of package storeless, in
-- doubles. Times are in µs, below 2^53 until the year 2255; products that would not fit
-- are taken apart (muldiv). Everything is read first, and written last: a server that
-- refuses writes refuses the first of them, and then nothing was written.
--
-- An account is a hash: .t is the latest time it has seen, .n the serial of the last
-- charge, .e when it expires in ms, and by the id of each limit what is counted: "window
-- current previous", a mark, or the sum of a trail, which is a sorted set of "until:cost"
-- by until. Ids are in base 36, and hold no dot.

local SLIDING, FIXED, GCRA, LOG, DAY = 1, 2, 3, 4, 5
local MINUTE, HOURS24 = 60000000, 86400000000

-- int writes a whole number that may be large: of 15 digits or more, Lua's own way is
-- 1.8e+15. Arguments of redis.call are written whole, and smaller numbers as well.
local function int(n) return string.format('%.0f', n) end

-- div returns floor(a/b) and what is left: math.fmod is exact, a/b is not.
local function div(a, b)
	local rest = math.fmod(a, b)
	return (a - rest) / b, rest
end

-- muldiv returns floor(a*b/c) and what is left, for a < 2^35, b <= c or a <= c, and
-- b, c < 2^45: seven bits of a at a time.
local function muldiv(a, b, c)
	local q, rest = 0, 0
	for shift = 28, 0, -7 do
		local more
		local chunk = math.floor(a / 2 ^ shift) % 128
		more, rest = div(rest * 128 + chunk * b, c)
		q = q * 128 + more
	end
	return q, rest
end

-- limits reads limits from ARGV: seven words each, from the at-th on.
local function limits(at, n)
	local list = {}
	for i = 1, n do
		local a = at + (i - 1) * 7
		list[i] = {
			kind = tonumber(ARGV[a]), id = ARGV[a + 1], quota = tonumber(ARGV[a + 2]),
			window = tonumber(ARGV[a + 3]), interval = tonumber(ARGV[a + 4]),
			empties = tonumber(ARGV[a + 5]), horizon = tonumber(ARGV[a + 6]),
		}
	end
	return list
end

-- clock returns the server's time.
local function clock()
	local t = redis.call('TIME')
	return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- load reads an account, and rolls it to now, or to when it was last charged where the
-- server's clock has stepped back behind that: an earlier window would be a fresh quota.
-- But one that lies further ahead than its longest window, or the time in which its slowest
-- bucket empties, was charged by a clock that was wrong, and begins anew. trails are the
-- keys of the trails, in order. Returns the time to go by, the serial, when the account
-- expires, when it was last charged, and by how much a wrong clock was ahead.
local function load(key, trails, list, now)
	local fields = {}
	for i, l in ipairs(list) do fields[i] = l.id end
	local h = redis.call('HMGET', key, '.t', '.n', '.e', unpack(fields))
	local latest, hold, astray = tonumber(h[1] or 0), 0, nil
	for _, l in ipairs(list) do hold = math.max(hold, l.window, l.empties) end
	if latest - now > hold then
		astray, latest = latest - now, 0
		h = { false, h[2], false }
	end
	now = math.max(now, latest)
	local trail = 0
	for i, l in ipairs(list) do
		local v = h[i + 3] or ''
		if l.kind == GCRA then
			l.at = tonumber(v) or 0
			if l.at <= now or l.at - now > l.horizon then l.at = 0 end
		elseif l.kind == LOG or l.kind == DAY then
			trail = trail + 1
			l.key = trails[trail]
			l.used = tonumber(v)
			if l.used then
				local ended = redis.call('ZRANGEBYSCORE', l.key, '-inf', now)
				for _, m in ipairs(ended) do l.used = l.used - tonumber(string.match(m, ':(%d+)$')) end
				l.used = math.max(0, l.used)
				-- What has ended is looked at once, also by who only peeks. A server that
				-- takes no writes keeps both the sum and its parts.
				l.ended = #ended -- that are still in the trail
				if #ended > 0 and type(redis.pcall('HSET', key, l.id, l.used, '.t', now)) == 'number' then
					redis.call('ZREMRANGEBYSCORE', l.key, '-inf', now)
					l.ended = 0
				end
			else
				-- A trail without its sum has outlived an account, and counts nothing.
				l.used, l.stale = 0, true
			end
		else
			local at, cur, prev = string.match(v, '^(%d+) (%d+) (%d+)$')
			at, cur, prev = tonumber(at or 0), tonumber(cur or 0), tonumber(prev or 0)
			local window = div(now, l.window)
			if at == window then
				l.at, l.cur, l.prev = at, cur, prev
			elseif at == window - 1 and l.kind == SLIDING then
				l.at, l.cur, l.prev = window, 0, cur
			else
				l.at, l.cur, l.prev = window, 0, 0
			end
		end
	end
	return now, tonumber(h[2] or 0), tonumber(h[3] or 0), latest, astray
end

-- until_ returns from when a charge of a trail does not count any more.
local function until_(l, at)
	if l.kind == DAY then return (div(at, MINUTE) + 1) * MINUTE + HOURS24 end
	return at + l.window
end

-- LOOKED is how many parts of a trail a wait looks at: a refusal costs about the same,
-- however dear the call is. Package exact has the same number.
local LOOKED = 256

-- waits returns for each of wants, in order, when so much of a trail has ended, and how much
-- has by then; nothing of a trail that is not there. What is not among the first parts is
-- rounded up: each of the others holds at least 1, so that no more of them need end than
-- what is missing. Goes on by score: an offset would be walked from the start each time.
local function waits(l, wants, now)
	local found, sum, looked, after = {}, 0, 0, '(' .. int(now)
	while #found < #wants and looked < LOOKED do
		local n = math.min(wants[#wants] - sum, LOOKED - looked, 100)
		local some = redis.call('ZRANGEBYSCORE', l.key, after, '+inf', 'LIMIT', 0, n)
		for _, m in ipairs(some) do
			local ends, c = string.match(m, '^(%d+):(%d+)$')
			sum, looked, after = sum + tonumber(c), looked + 1, '(' .. ends
			while wants[#found + 1] and sum >= wants[#found + 1] do found[#found + 1] = { tonumber(ends), sum } end
			if #found == #wants then return found end
		end
		if #some < n then break end
	end
	for i = #found + 1, #wants do
		local last = l.ended + looked - 1
		local m = sum > 0 and (redis.call('ZRANGE', l.key, last + wants[i] - sum, last + wants[i] - sum)[1] or redis.call('ZRANGE', l.key, -1, -1)[1])
		if m then found[i] = { tonumber(string.match(m, '^(%d+)')), math.min(wants[i], l.used) } end
	end
	return found
end

-- fields returns what to store of an account.
local function fields(list, now, serial, expires)
	local f = { '.t', now, '.n', serial, '.e', expires }
	for i, l in ipairs(list) do
		f[2 * i + 5] = l.id
		if l.kind == GCRA then
			f[2 * i + 6] = l.at
		elseif l.kind == LOG or l.kind == DAY then
			f[2 * i + 6] = l.used
		else
			f[2 * i + 6] = l.at .. ' ' .. l.cur .. ' ' .. l.prev
		end
	end
	return f
end
