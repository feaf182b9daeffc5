-- refund: what a receipt says, once, while it counts.
--
-- KEYS: the account, and its trails.
-- ARGV: numbers, packed: serial, time and cost of the receipt, how many serials it has, hold (see load), and the serials of
-- the limits, with what each gives back. Where the receipt says where it is on the lines of its limits: what it cost,
-- from where on it is there, as distances from its time, and what it cost on each; packed as well.
-- Returns 1 if it gave back, 0 if there was nothing, and 2 if that was too long ago; or nothing,
-- see plain.lua.

local given, at, cost, serials, hold, @numbers = struct.unpack('<ddddd@formats', ARGV[1])
local time = redis.call('TIME')
time = time[1] * 1000000 + time[2]
--@ load

local counts = 0 -- until when
--@ each counts
if ahead > 0 or now >= counts or given < 1 or given > serial then return '0' end
if serial - given + serials > REFUNDABLE then return '2' end
-- Each serial names the charge of a limit, the last one the first limit's, if there are several.
local costs, any = { @costs }, false
for i = 1, serials do
	local f, b
	if costs[i] > 0 then f, b = gave(given - i + 1, serial, form, back) end
	if f then form, back, any = f, b, true elseif serials > 1 then costs[i] = 0 end
end
if not any then return '0' end
@costs = unpack(costs)
local block = ''
--@ mode back
--@ mode store
redis.call('SET', KEYS[1], struct.pack(HEAD .. '@entries', 4, kept, side + partsOf(pause, form, block), since, now, serial, expires, @keep) .. others .. block .. back .. pause .. ids, 'KEEPTTL')
--@ each swept
return '1'
