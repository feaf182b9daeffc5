-- refund: what a receipt says, once, while it counts.
--
-- KEYS: the account, its trails, the mark of the receipt.
-- ARGV: numbers, packed: serial, time and cost of the receipt, hold (see load), and those of
-- the limits.
-- Returns what it gave back: 1, or 0 if there was nothing.

local given, at, cost, hold, @numbers = struct.unpack('<dddd@formats', ARGV[1])
local time = redis.call('TIME')
time = time[1] * 1000000 + time[2]
--@ load

local counts = 0 -- until when
--@ each counts
local mark = KEYS[@hashes]
if ahead > 0 or at > now or now >= counts or given < 1 or given > serial or redis.call('EXISTS', mark) == 1 then return '0' end

redis.call('SET', mark, 1, 'EXAT', math.ceil(counts / 1000000) + 60)
--@ each refund
redis.call('SET', KEYS[1], struct.pack(HEAD .. '@entries', 2, kept, side + #pause / 4, since, now, serial, expires, @keep) .. others .. pause .. ids, 'KEEPTTL')
--@ each swept
return '1'
