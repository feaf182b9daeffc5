-- refund: what a receipt says, once, while it counts.
--
-- KEYS: the account, its trails, and a mark of the receipt, which versions before 4 have left.
-- ARGV: numbers, packed: serial, time and cost of the receipt, hold (see load), and those of
-- the limits. Where the receipt says where it is on the lines of its limits: what it cost, and
-- from where on it is there, as distances from its time; packed as well.
-- Returns 1 if it gave back, 0 if there was nothing, and 2 if that was too long ago; or nothing,
-- see plain.lua.

local given, at, cost, hold, @numbers = struct.unpack('<dddd@formats', ARGV[1])
local time = redis.call('TIME')
time = time[1] * 1000000 + time[2]
--@ load

local counts = 0 -- until when
--@ each counts
if ahead > 0 or now >= counts or given < 1 or given > serial then return '0' end
if serial - given >= REFUNDABLE then return '2' end
form, back = gave(given, serial, form, back)
if not form or redis.call('EXISTS', KEYS[@hashes]) == 1 then return '0' end
local block = ''
--@ mode back
--@ mode store
redis.call('SET', KEYS[1], struct.pack(HEAD .. '@entries', 4, kept, side + partsOf(pause, form, block), since, now, serial, expires, @keep) .. others .. block .. back .. pause .. ids, 'KEEPTTL')
--@ each swept
return '1'
