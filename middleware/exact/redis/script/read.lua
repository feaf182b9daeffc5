-- read: an account as it is stored, and its trails.
--
-- KEYS: the account, and trails.
-- Returns the account, and for each trail its parts, with spaces between; or nothing.

local v = redis.pcall('GET', KEYS[1])
if type(v) == 'table' then return v end -- it is no string
if not v then return {} end
local reply = { v }
for i = 2, #KEYS do reply[i] = table.concat(redis.call('ZRANGE', KEYS[i], 0, -1), ' ') end
return reply
