-- load reads the account, and rolls it to now, or to when it was last charged where the
-- server's clock has stepped back behind that: an earlier window would be a fresh quota.
-- But one that lies further ahead than hold, its longest window or the time in which its
-- slowest bucket empties, or what a bucket owes, was charged by a clock that was wrong, and begins anew.
-- What it has then: v, the account as it is stored, and where its entries end; the entries of
-- other policies and the IDs; and variables of each limit, which end in its number.

local v, ends, others, ids = redis.pcall('GET', KEYS[1]), 27, '', ''
if type(v) == 'table' then return v end -- it is no string
local version, kept, side, since, latest, serial, expires = 4, 0, 0, 0, 0, 0, 0
local paused, pause = 0, '' -- until when, and as it is stored
local form, back = FEW, '' -- of what came back
local ahead, lasts = 0, 0 -- by how much a wrong clock was; when what is stored expires
local booked, before, more = 0, 0, '' -- what is booked, and the lines as they are stored
local parts, idsAt = 0, 0 -- what there is beside entries and IDs, and where these are
--@ mode begin
local @counts = @zero
if v then
	if #v < 27 then return redis.error_reply(DAMAGED) end
	version, kept, side, since, latest, serial, expires = struct.unpack(HEAD, v)
	if version ~= 4 then return redis.error_reply('VERSION the account is of another version of this package, or none') end
	ends = #v - 40 * kept
	ids, lasts = string.sub(v, ends + 1), expires
	parts = side - side % 2
	side = side % 2
	idsAt = ends
	local rest = parts % 4 >= 2 and ends - 8 or ends
	if rest < 27 then return redis.error_reply(DAMAGED) end
	if rest < ends then
		pause = string.sub(v, rest + 1, ends)
		paused = struct.unpack('<d', pause)
	end
	if parts >= 4 then
		form = math.floor(parts / 4) % 4
		local size = form == RING and 1024 or form == SOME and 10 + struct.unpack('<I2', v, rest - 1) or 0
		back, rest = string.sub(v, rest - size + 1, rest), rest - size
	end
	if parts >= 16 then
		local size
		if rest < 27 + 20 then return redis.error_reply(DAMAGED) end
		booked, before, size = struct.unpack('<ddI4', v, rest - 19)
		rest = rest - 20
		more, rest = string.sub(v, rest - size + 1, rest), rest - size
		--@ mode load
	end
	ends = rest
	if ends < 27 + (serial > 0 and 13 or 0) then return redis.error_reply(DAMAGED) end -- what was charged has an entry
	local same = false
	if ends >= 27 + @size then
		local @found = struct.unpack('<@entries', v, FIRST)
		if @same then
			same = true
			@counts = @read
		end
	end
	if same then
		others = string.sub(v, FIRST + @size, ends)
	else
		local entries, order = entriesOf(v, ends)
		if not entries then return redis.error_reply(DAMAGED) end
		--@ each find
		for i, id in ipairs(order) do order[i] = i <= ENTRIES and entries[id] or '' end
		others = table.concat(order)
	end
	hold = math.max(hold, paused - latest)
	--@ each hold
	if latest - time > hold then
		ahead, latest, expires, others, paused, booked = latest - time, 0, 0, '', 0, 0
		form, back = SOME, struct.pack('<dI2', serial, 0)
		@counts = @zero
	end
end
local now = math.max(time, latest)
local rests = paused > now
local ended = 0 -- parts of trails
--@ mode open
--@ each roll
