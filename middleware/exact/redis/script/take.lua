-- take: calls of one key, policy and cost, in order, as one step.
--
-- KEYS: the account, its trails, and if a call has an ID, the two hashes for IDs.
-- ARGV: numbers, packed: the cost, the largest where limits have their own, how many serials a charge has, 1 to charge or 0 to peek, 1 where what has no room is charged
-- as well, for how long to pause, the time after which no caller
-- waits for the answer or 0, hold (see load), how far ahead to book (booked.lua alone), and
-- the numbers of the limits, with what each is charged. Then for each call its
-- ID, hashed, or nothing.
-- Returns a packed string. The time alone where no caller waits any more, and has counted
-- nothing: under load what is answered too late makes the next answer later still. The time and
-- the moment at which the account is decided, where a window of the calendar is of another. Else
-- the time, when the account was last charged, or less than zero by how much a
-- wrong clock was ahead that had charged it, the serial before, until when it was paused, the limits as they stood
-- before, what is booked and the lines (booked.lua alone), and what became of each call, in one
-- byte: 0 refused, 1 admitted, 2 refused before, 3 admitted before, followed by when, its serial
-- and its cost; or 4, followed by how many limits it was charged to while calls were booked, in
-- one byte, the same three, the moment it was admitted for, and from where on it is on each line.
-- Or nothing, see plain.lua.

local cost, serials, charge, past, pauses, deadline, hold@within, @numbers = struct.unpack('<ddBBddd@asks@formats', ARGV[1])
local time = redis.call('TIME')
time = time[1] * 1000000 + time[2]
if deadline > 0 and time > deadline then return struct.pack('<d', time) end
--@ load

-- How it stands, and what the waits depend on.
local calls = #ARGV - 1
--@ each stand
local reply = { struct.pack('<dddd@stands', time, ahead > 0 and -ahead or latest, serial, paused, @stood) }
--@ mode stand

-- What has become of calls whose IDs are not in the account.
local spilled, HASHES = {}, @hashes
if KEYS[HASHES] and since > 0 then
	local age = math.floor(time / 1000000) - since
	if age < 2 * LIFE + 3 then spilled[1] = redis.call('HMGET', KEYS[HASHES + side], unpack(ARGV, 2)) end
	if age < LIFE + 3 then spilled[2] = redis.call('HMGET', KEYS[HASHES + 1 - side], unpack(ARGV, 2)) end
end

local changed, fresh, news = false, {}, {}
local spill, switch -- IDs for a hash, and whether it is another one now
for i = 2, #ARGV do
	local id, said = ARGV[i], false
	if id ~= '' then
		said = news[id] or remembered(ids, id)
		for _, found in ipairs(spilled) do said = said or found[i - 1] and id .. found[i - 1] end
	end
	if said then
		local _, of = struct.unpack('<dd', said, 17)
		reply[#reply + 1] = of == 0 and '\2' or (#said > 40 and '\4' .. string.char(#said / 8 - 6) or '\3') .. string.sub(said, 17)
	else
		local fits = true
		--@ each fits
		fits = fits and not rests or past == 1
		--@ mode fits
		reply[#reply + 1] = fits and '\1' or '\0'
		if fits and charge == 1 then
			changed, paused = true, math.max(paused, pauses > 0 and now + pauses or 0)
			for _ = 1, cost > 0 and serials or 0 do serial, form, back = charged(serial, form, back, now) end
			--@ mode charge
		end
		if id ~= '' then
			said = id .. struct.pack('<ddd', now, not fits and 0 or cost == 0 and -1 or serial, cost)
			--@ mode said
		end
	end
end
reply = table.concat(reply)

-- IDs: those that are old enough are forgotten. Where there is no room for all, those that
-- were charged go to a hash, all at once, so that few calls do it; and of refusals, which
-- nothing bounds and which charge no call twice, the last stay here, and the others are forgotten.
-- A hash is filled for LIFE seconds, and then the other one, which is emptied before. That a clock
-- steps back must not empty it too soon.
if #fresh > 0 or spill then
	local first = 1
	while first < #ids and struct.unpack('<d', ids, first + 16) <= now - LIFE * 1000000 do first = first + 40 end
	ids = string.sub(ids, first) .. table.concat(fresh)
	if #ids > 40 * KEPT then
		local refusals = {}
		spill = spill or {}
		for at = 1, #ids, 40 do
			local _, of = struct.unpack('<dd', ids, at + 16)
			if of == 0 then
				refusals[#refusals + 1] = string.sub(ids, at, at + 39)
			else
				spill[#spill + 1], spill[#spill + 2] = string.sub(ids, at, at + 15), string.sub(ids, at + 16, at + 39)
			end
		end
		ids = table.concat(refusals, '', math.max(1, #refusals - KEPT / 2 + 1))
	end
	if spill and #spill > 0 then
		local second = math.floor(time / 1000000)
		switch = since > 0 and second - since >= LIFE
		if switch then side = 1 - side end
		if switch or since == 0 or second < since then since = second end
	end
	kept = #ids / 40
end

rests = paused > now
local block = ''
if ahead == 0 or changed then
	pause = rests and struct.pack('<d', paused) or ''
	--@ mode store
end
if spill and #spill > 0 then redis.call('HMGET', KEYS[HASHES + side], '') end -- fails where that is no hash
if changed then
	local last = paused
	--@ each last
	-- A minute more, for a server whose clock steps back, and for as long again, an hour at most, for
	-- one that is ahead for a moment: it believes that, and forgets. And never less than before:
	-- policies of one name, old and new, may have different windows.
	expires = math.max(expires, math.ceil((last + math.min(math.max(0, last - now), 60 * MINUTE)) / 1000000) + 60)
	redis.call('SET', KEYS[1], struct.pack(HEAD .. '@entries', 4, kept, side + partsOf(pause, form, block), since, now, serial, expires, @write) .. others .. block .. back .. pause .. ids, 'EXAT', expires)
	--@ each charged
elseif ended > 0 then
	-- What has ended of trails is looked at once, also by a call that only peeks. A server that
	-- takes no writes keeps both the sum and its parts.
	v = struct.pack(HEAD .. '@entries', 4, kept, side + partsOf(pause, form, block), since, now, serial, expires, @keep) .. others .. block .. back .. pause .. ids
	if #fresh > 0 then
		redis.call('SET', KEYS[1], v, 'KEEPTTL')
	elseif redis.pcall('SET', KEYS[1], v, 'KEEPTTL').err then
		return reply
	end
	--@ each swept
elseif #fresh > 0 then
	-- Nothing has changed except the IDs.
	v = struct.pack('<BBBI4', version, kept, side + parts, since) .. (v and string.sub(v, 8, idsAt) or struct.pack('<ddI4', 0, 0, 0)) .. ids
	if lasts >= time / 1000000 + LIFE then
		redis.call('SET', KEYS[1], v, 'KEEPTTL')
	else
		redis.call('SET', KEYS[1], v, 'EX', LIFE)
	end
end
if spill and #spill > 0 then
	local hash = KEYS[HASHES + side]
	if switch then redis.call('UNLINK', hash) end
	redis.call('HSET', hash, unpack(spill))
	redis.call('EXPIRE', hash, LIFE + 2)
end
return reply
