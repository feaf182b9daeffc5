-- refund: what a receipt says, once, while it counts.
--
-- KEYS: the account, its trails, the mark of the receipt.
-- ARGV: numbers, packed: serial, time and cost of the receipt, hold (see load), and those of
-- the limits. Where the receipt says where it is on the lines of its limits: what it cost, and
-- from where on it is there, as distances from its time; packed as well.
-- Returns what it gave back: 1, or 0 if there was nothing; or nothing, see plain.lua.

local given, at, cost, hold, @numbers = struct.unpack('<dddd@formats', ARGV[1])
local time = redis.call('TIME')
time = time[1] * 1000000 + time[2]
--@ load

local counts = 0 -- until when
--@ each counts
local mark = KEYS[@hashes]
if ahead > 0 or given <= void or now >= counts or given < 1 or given > serial or redis.call('EXISTS', mark) == 1 then return '0' end

redis.call('SET', mark, 1, 'EXAT', math.ceil(counts / 1000000) + 60)
local block = more
--@ mode back
--@ mode store
redis.call('SET', KEYS[1], struct.pack(HEAD .. '@entries', #block > 0 and 3 or 2, kept, side + #pause / 4, since, now, serial, expires, @keep) .. others .. block .. pause .. ids, 'KEEPTTL')
--@ each swept
return '1'
