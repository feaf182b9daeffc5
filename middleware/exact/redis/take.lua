-- take: calls of one key, policy and cost, in order, as one step.
--
-- KEYS: the account, its trails, and one for each call that has an ID.
-- ARGV: the cost, 1 to charge or 0 to peek, for how many ms an ID is remembered, the
-- number of limits and of calls, the time in µs after which nobody waits for the answer
-- or 0, the limits, and for each call 1 if it has an ID.
-- Returns the time alone where nobody waits any more, and has counted nothing: in a crowd
-- what is answered too late makes the next answer later still. Else
-- it returns the time, when the account was last charged, or less than zero by how much a
-- wrong clock was ahead that had charged it, the serial before, the limits as they stood
-- before, and what became of each call: 0 refused, 1 admitted, 2 refused before, 3 admitted before, followed by its
-- serial, time and cost.

local cost, charge, life = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3]
local count, calls = tonumber(ARGV[4]), tonumber(ARGV[5])
local time, deadline = clock(), tonumber(ARGV[6])
if deadline > 0 and time > deadline then return { time } end
local list = limits(7, count)
local trails, key = {}, 2
for _, l in ipairs(list) do
	if l.kind == LOG or l.kind == DAY then
		trails[#trails + 1] = KEYS[key]
		key = key + 1
	end
end
local now, serial, expires, latest, astray = load(KEYS[1], trails, list, time)

-- How it stands, and what the waits depend on.
local reply = { time, astray and -astray or latest, serial }
for _, l in ipairs(list) do
	if l.kind == GCRA then
		reply[#reply + 1] = l.at
	elseif l.kind == LOG or l.kind == DAY then
		-- When there is room for 1, and if calls are refused when there is for the first of
		-- those: after it nothing is charged.
		local room = l.quota - l.used
		local wants, fit = { math.max(0, -room) + 1 }, math.max(0, math.floor(room / cost))
		if cost <= l.quota and fit < calls then wants[2] = (fit + 1) * cost - room end
		local found, freed = l.used > 0 and waits(l, wants, now) or {}, 0
		local place = #reply + 1
		reply[place], reply[place + 1] = 0, #found
		for _, f in ipairs(found) do
			reply[#reply + 1], reply[#reply + 2] = f[1], f[2] - freed
			freed = f[2]
		end
		-- A sum without its trail, which was evicted, would count for ever.
		if freed == 0 then l.used = 0 end
		reply[place] = l.used
	else
		reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = l.at, l.cur, l.prev
	end
end

local function fits()
	for _, l in ipairs(list) do
		local room
		if l.kind == GCRA then
			room = div(l.empties - math.max(0, l.at - now), l.interval)
		elseif l.kind == LOG or l.kind == DAY then
			room = l.quota - l.used
		else
			room = l.quota - l.cur
			if l.prev > 0 then
				local weighed, rest = muldiv(l.prev, l.window - (now - l.at * l.window), l.window)
				room = room - weighed - (rest > 0 and 1 or 0)
			end
		end
		if cost > room then return false end
	end
	return true
end

local before, charged, answers = serial, 0, {}
for i = 1, calls do
	local id = ARGV[6 + 7 * count + i] == '1' and KEYS[key]
	if id then key = key + 1 end
	local said = id and (answers[id] or redis.call('GET', id))
	if said then
		local s, at, c = string.match(said, '^(%d+) (%d+) (%d+)$')
		if s == '0' then
			reply[#reply + 1] = 2
		else
			reply[#reply + 1], reply[#reply + 2], reply[#reply + 3], reply[#reply + 4] = 3, tonumber(s), tonumber(at), tonumber(c)
		end
	elseif fits() then
		reply[#reply + 1] = 1
		if charge then
			serial = serial + 1
			for _, l in ipairs(list) do
				if l.kind == GCRA then
					l.at = math.max(l.at, now) + cost * l.interval
				elseif l.kind == LOG or l.kind == DAY then
					l.used = l.used + cost
				else
					l.cur = l.cur + cost
				end
			end
			charged = charged + cost
			if id then answers[id] = int(serial) .. ' ' .. int(now) .. ' ' .. int(cost) end
		end
	else
		reply[#reply + 1] = 0
		if id then answers[id] = '0 0 0' end
	end
end
if not charge then return reply end

if charged > 0 then
	local ends = 0
	if astray then redis.call('DEL', KEYS[1]) end -- also what other policies have there
	for _, l in ipairs(list) do
		if l.kind == GCRA then
			ends = math.max(ends, l.at)
		elseif l.kind == LOG or l.kind == DAY then
			ends = math.max(ends, until_(l, now))
		else
			ends = math.max(ends, (l.at + (l.kind == SLIDING and 2 or 1)) * l.window)
		end
	end
	-- A minute more, for a server whose clock steps back; and never less than before:
	-- policies of one name, old and new, may have different windows.
	ends = math.ceil(ends / 1000) + 60000
	redis.call('HSET', KEYS[1], unpack(fields(list, now, serial, math.max(ends, expires))))
	if ends > expires then redis.call('PEXPIREAT', KEYS[1], ends) end
	for _, l in ipairs(list) do
		if l.kind == LOG or l.kind == DAY then
			if l.stale then redis.call('DEL', l.key) end
			local score, c = until_(l, now), charged
			local before = redis.call('ZRANGEBYSCORE', l.key, score, score)[1]
			if before then c = c + tonumber(string.match(before, ':(%d+)$')) end
			redis.call('ZADD', l.key, score, int(score) .. ':' .. c)
			if before then redis.call('ZREM', l.key, before) end
			redis.call('PEXPIREAT', l.key, ends)
		end
	end
end
for id, said in pairs(answers) do redis.call('SET', id, said, 'PX', life) end
return reply
