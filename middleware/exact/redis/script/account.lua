-- What an account is, and what all scripts share: the arithmetic of package storeless, in
-- doubles. Times are in µs since 1970, below 2^53 until the year 2255; products that would
-- not fit are taken apart (muldivup). Everything is read first, and written last: a server
-- that refuses writes refuses the first of them, and then nothing was written.
--
-- An account is one string, so that a charge is one GET and one SET. Numbers are little
-- endian; d is a double.
--
--     at   bytes
--      0       1   4, the version of this form
--      1       1   how many IDs there are
--      2       1   0 or 1: which of the two hashes IDs go to that have no room here; and what
--                  else there is: 2 for a pause, 4 times the form of what came back, 16 for lines
--      3       4   since when they do, in s; 0: there was always room
--      7     8 d   the latest time that it has seen
--     15     8 d   the serial of the last charge
--     23       4   when it expires, in s
--     27    each   entries: what each limit has counted, the limits of the last charge first
--      …    each   lines of buckets while calls are booked, see line.lua
--      …     8 d       the last moment that a call is booked for, in µs
--      …     8 d       the last serial before the first that is booked
--      …       4       how long the lines are
--      …    each   what came back, see back.lua
--      …     8 d   where the key is paused: until when
--      …      40   IDs, the oldest first
--
-- An entry:
--
--      0       4   the id of the limit; 2^32-1: of none, where what was charged counts nothing any more
--      4       1   w: a window; or n: another limit
--      5     3×4   w: the number of the window, what it counts, what the one before does
--      5     8 d   n: the mark of a bucket, or the sum of a trail: of a sliding log or a
--                  rolling day, whose parts are a sorted set of "until:cost" by until
--
-- A line:
--
--      0       4   the id of the limit
--      4     8 d   its base
--     12       2   how many holes it has
--     14  2×8 d   each: from when to when
--
-- An ID, and what became of its call:
--
--      0      16   its hash
--     16     8 d   when it was decided
--     24     8 d   the serial of the charge; 0: it was refused; -1: it only paused the key
--     32     8 d   the cost
--
-- A hash that IDs go to has the first 16 bytes as fields, and the others as values. An ID of a
-- call that was charged while calls were booked goes there at once, and has besides:
--
--     40     8 d   the moment that it was admitted for
--     48     8 d   each limit: from where on it is on its line, from that moment

local HEAD, FIRST = '<BBBI4ddI4', 28 -- of an account; and where its entries begin
local MINUTE, HOURS24 = 60000000, 86400000000

-- HORIZON is how far ahead the mark of a bucket may lie: storeless.MaxWindow. MOST is the
-- largest count: storeless.MaxQuota. PARTS is how many parts a trail has at most: exact.MaxLog.
local HORIZON, MOST, PARTS = 366 * HOURS24, 2147483647, 10000

-- For how many IDs and entries there is room in an account. Of more entries, which only
-- policies of one name with very different limits can leave, those that were charged long ago go.
local KEPT, ENTRIES = 32, 32

-- int writes a whole number that may be large: of 15 digits or more, Lua's own way is
-- 1.8e+15. Arguments of redis.call are written whole, and smaller numbers as well.
local function int(n) return string.format('%.0f', n) end

-- div returns floor(a/b) and what is left: math.fmod is exact, a/b is not.
local function div(a, b)
	local rest = math.fmod(a, b)
	return (a - rest) / b, rest
end

-- muldivup returns a*b/c, rounded up, for a < 2^35, b <= c and c < 2^45: where the product
-- is no whole double, seven bits of a at a time.
local function muldivup(a, b, c)
	if a * b < 2 ^ 53 then
		local q, rest = div(a * b, c)
		return rest > 0 and q + 1 or q
	end
	local q, rest = 0, 0
	for shift = 28, 0, -7 do
		local more
		local chunk = math.floor(a / 2 ^ shift) % 128
		more, rest = div(rest * 128 + chunk * b, c)
		q = q * 128 + more
	end
	return rest > 0 and q + 1 or q
end

-- Serials and refunds are as in package engine, see refunds.go: an account begins with a
-- serial near to its µs since 1970. The forms are those in which few charges, and many, have
-- nothing come back; with some back; and a ring, of the bits of the last charges.
local REFUNDABLE, FEW, SOME, RING, MANY = 8192, 0, 1, 2, 3

-- charged returns the serial of the next charge, and what has come back then: in a ring a bit was
-- another's.
local function charged(serial, form, back, now)
	serial = (serial > 0 and serial or now - now % REFUNDABLE) + 1
	if form == FEW and serial % REFUNDABLE == 0 then form = MANY end
	if form == RING then
		local i = math.floor(serial % REFUNDABLE / 8)
		local byte, bit = string.byte(back, i + 1), 2 ^ (serial % 8)
		if byte % (2 * bit) >= bit then back = string.sub(back, 1, i) .. string.char(byte - bit) .. string.sub(back, i + 2) end
	end
	return serial, form, back
end

-- partsOf returns what is said of what there is beside entries and IDs.
local function partsOf(pause, form, block) return (#pause > 0 and 2 or 0) + 4 * form + (#block > 0 and 16 or 0) end

-- DAMAGED is what is said of bytes that are no account, as far as their form tells.
local DAMAGED = 'DAMAGED it is no account of this package, or not all of one'

-- entriesOf returns the entries of an account by the ids of their limits, and the ids in
-- order; or nothing where they do not end where they should.
local function entriesOf(v, ends)
	local entries, ids, at = {}, {}, FIRST
	while at + 12 <= ends do
		local id, form = struct.unpack('<I4c1', v, at)
		local size = form == 'w' and 17 or 13
		entries[id], ids[#ids + 1] = string.sub(v, at, at + size - 1), id
		at = at + size
	end
	if at == ends + 1 then return entries, ids end
end

-- remembered returns what became of a call, out of IDs.
local function remembered(ids, id)
	local at = string.find(ids, id, 1, true)
	while at and at % 40 ~= 1 do at = string.find(ids, id, at + 1, true) end
	return at and string.sub(ids, at, at + 39)
end

-- untilOf returns from when a charge of a trail does not count any more. A window of 0 is a
-- rolling day.
local function untilOf(at, window)
	if window == 0 then return (div(at, MINUTE) + 1) * MINUTE + HOURS24 end
	return at + window
end

-- LOOKED is how many parts of a trail a wait looks at: a refusal costs about the same,
-- however dear the call is. Package exact has the same number.
local LOOKED = 256

-- waits returns for each of wants, in order, when that part of a trail has ended, and how much
-- has by then; nothing of a trail that is not there. used is its sum, and its first parts,
-- ended of them, have ended. What is not among the first parts is
-- rounded up: each of the others holds at least 1, so that no more of them need end than
-- what is missing. Goes on by score: an offset would be walked from the start each time.
local function waits(trail, used, ended, wants, now)
	local found, sum, looked, after = {}, 0, 0, '(' .. int(now)
	while #found < #wants and looked < LOOKED do
		local n = math.min(wants[#wants] - sum, LOOKED - looked, 100)
		local some = redis.call('ZRANGEBYSCORE', trail, after, '+inf', 'LIMIT', 0, n)
		for _, m in ipairs(some) do
			local ends, c = string.match(m, '^(%d+):(%d+)$')
			sum, looked, after = sum + tonumber(c), looked + 1, '(' .. ends
			while wants[#found + 1] and sum >= wants[#found + 1] do found[#found + 1] = { tonumber(ends), sum } end
			if #found == #wants then return found end
		end
		if #some < n then break end
	end
	for i = #found + 1, #wants do
		local last = ended + looked - 1
		local m = sum > 0 and (redis.call('ZRANGE', trail, last + wants[i] - sum, last + wants[i] - sum)[1] or redis.call('ZRANGE', trail, -1, -1)[1])
		if m then found[i] = { tonumber(string.match(m, '^(%d+)')), math.min(wants[i], used) } end
	end
	return found
end
