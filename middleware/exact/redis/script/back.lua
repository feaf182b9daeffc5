-- What came back, as refunds change it: a floor, up to which nothing comes back any more, and the
-- bits of charges above it, which begin in the byte of the first of those, by serial/8. Stored
-- behind the bits are the floor, a double, and how many bytes they are, in two. Where that is more
-- than a kilobyte it is a ring: the bit of each of the last charges, by serial%8192.

local function byteOf(serial) return math.floor(serial / 8) end

-- unpackedBack returns the floor, and the bits.
local function unpackedBack(serial, form, back)
	if form == FEW then return serial - serial % REFUNDABLE, '' end
	local lowest = math.max(0, serial - REFUNDABLE)
	if form == MANY then return lowest, '' end
	if form == SOME then return struct.unpack('<d', back, #back - 9), string.sub(back, 1, -11) end
	local first = byteOf(lowest + 1) % 1024
	local bits = string.sub(back, first + 1) .. string.sub(back, 1, first)
	local byte, high = string.byte(bits), 2 ^ ((lowest + 1) % 8)
	local newest = high > 1 and string.char(byte % high) or '' -- in one byte with the oldest
	return lowest, string.char(byte - byte % high) .. string.sub(bits, 2) .. newest
end

-- followed raises the floor over all that came back without a gap.
local function followed(floor, bits)
	local function ones()
		local byte = math.floor((string.byte(bits) or 0) / 2 ^ ((floor + 1) % 8))
		while byte % 2 == 1 do floor, byte = floor + 1, math.floor(byte / 2) end
	end
	if (floor + 1) % 8 > 0 then
		ones()
		if (floor + 1) % 8 > 0 then return floor, bits end
		bits = string.sub(bits, 2)
	end
	local whole = (string.find(bits, '[^\255]') or #bits + 1) - 1
	floor, bits = floor + 8 * whole, string.sub(bits, whole + 1)
	ones()
	return floor, bits
end

-- packedBack writes what unpackedBack has returned.
local function packedBack(serial, floor, bits)
	local low = 2 ^ ((floor + 1) % 8)
	if #bits == 1 and string.byte(bits) < low then bits = '' end
	if #bits <= 1014 or serial <= REFUNDABLE then return SOME, bits .. struct.pack('<dI2', floor, #bits) end
	local lowest = serial - REFUNDABLE
	local first, at, byte = byteOf(lowest + 1), byteOf(floor + 1), string.byte(bits)
	bits = string.rep('\255', at - first) .. string.char(byte - byte % low + low - 1) .. string.sub(bits, 2)
	bits = bits .. string.rep('\0', byteOf(serial) - first + 1 - #bits)
	byte = string.byte(bits)
	byte = byte - byte % 2 ^ ((lowest + 1) % 8) + (string.byte(bits, 1025) or 0)
	first = first % 1024
	bits = string.char(byte) .. string.sub(bits, 2, 1024)
	return RING, string.sub(bits, 1025 - first) .. string.sub(bits, 1, 1024 - first)
end

-- gave notes that a charge comes back: it returns the form and the bytes of that, or nothing where
-- it did before.
local function gave(number, serial, form, back)
	local lowest = math.max(0, serial - REFUNDABLE)
	if form == RING and string.byte(back, byteOf(lowest + 9) % 1024 + 1) < 255 then -- it stays one
		local i, bit = byteOf(number) % 1024, 2 ^ (number % 8)
		local byte = string.byte(back, i + 1)
		if byte % (2 * bit) >= bit then return end
		return RING, string.sub(back, 1, i) .. string.char(byte + bit) .. string.sub(back, i + 2)
	end
	local floor, bits = unpackedBack(serial, form, back)
	lowest = math.max(floor, lowest)
	bits = string.sub(bits, 1 + byteOf(lowest + 1) - byteOf(floor + 1))
	floor = lowest
	local i = byteOf(number) - byteOf(floor + 1)
	if number <= floor then return end
	bits = bits .. string.rep('\0', i + 1 - #bits)
	local byte, bit = string.byte(bits, i + 1), 2 ^ (number % 8)
	if byte % (2 * bit) >= bit then return end
	bits = string.sub(bits, 1, i) .. string.char(byte + bit) .. string.sub(bits, i + 2)
	return packedBack(serial, followed(floor, bits))
end
