-- restore: an account of another counter, where there is none.
--
-- KEYS: the account, and trails.
-- ARGV: the account as it is to be stored, but for when it expires; until when it counts, in s;
-- and the parts of each trail, with spaces between.
-- Returns 1, or 0 where there is an account.

local v = redis.pcall('GET', KEYS[1])
if type(v) == 'table' or v and struct.unpack('<d', v, 8) > 0 then return '0' end -- of IDs alone is none
local now, last = tonumber(redis.call('TIME')[1]), tonumber(ARGV[2])
if last <= now then return '1' end
local expires = last + math.min(last - now, 3600) + 60 -- as in take
for i = 2, #KEYS do
	redis.call('DEL', KEYS[i])
	for part in string.gmatch(ARGV[i + 1], '%S+') do redis.call('ZADD', KEYS[i], string.match(part, '^%d+'), part) end
	redis.call('EXPIREAT', KEYS[i], expires)
end
redis.call('SET', KEYS[1], string.sub(ARGV[1], 1, 23) .. struct.pack('<I4', expires) .. string.sub(ARGV[1], 28), 'EXAT', expires)
return '1'
