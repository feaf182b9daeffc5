-- load reads the account, and rolls it to now, or to when it was last charged where the
-- server's clock has stepped back behind that: an earlier window would be a fresh quota.
-- But one that lies further ahead than hold, its longest window or the time in which its
-- slowest bucket empties, or what a bucket owes, was charged by a clock that was wrong, and begins anew.
-- What it has then: v, the account as it is stored, and where its entries end; the entries of
-- other policies and the IDs; and variables of each limit, which end in its number.

local v, ends, others, ids = redis.pcall('GET', KEYS[1]), 27, '', ''
if type(v) == 'table' then v = old(KEYS[1]) end -- a hash, or old says what is wrong
local version, kept, side, since, latest, serial, expires = 2, 0, 0, 0, 0, 0, 0
local paused, pause = 0, '' -- until when, and as it is stored
local ahead, lasts = 0, 0 -- by how much a wrong clock was; when what is stored expires
local void, booked, before, more = 0, 0, 0, '' -- what an account of version 3 has besides, and as it is stored
--@ mode begin
local @counts = @zero
if v then
	version, kept, side, since, latest, serial, expires = struct.unpack(HEAD, v)
	if version < 2 or version > 3 then return redis.error_reply('VERSION the account is of a later version of this package') end
	ends = #v - 40 * kept
	ids, lasts = string.sub(v, ends + 1), expires
	if side >= 2 then
		side, ends = side - 2, ends - 8
		pause = string.sub(v, ends + 1, ends + 8)
		paused = struct.unpack('<d', pause)
	end
	if version == 3 then
		local size
		void, booked, before, size = struct.unpack('<dddI4', v, ends - 27)
		ends = ends - 28 - size
		more = string.sub(v, ends + 1, ends + 28 + size)
		--@ mode load
	end
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
		--@ each find
		for i, id in ipairs(order) do order[i] = i <= ENTRIES and entries[id] or '' end
		others = table.concat(order)
	end
	hold = math.max(hold, paused - latest)
	--@ each hold
	if latest - time > hold then
		ahead, latest, expires, others, paused, void, booked = latest - time, 0, 0, '', 0, serial, 0
		@counts = @zero
	end
end
local now = math.max(time, latest)
local rests = paused > now
local ended = 0 -- parts of trails
--@ mode open
--@ each roll
