-- What is in scripts that know of calls that are booked, see line.lua. While one is, booked is
-- the last moment that one is booked for, and each bucket has a line.

--@ begin
local lines, order = {}, {} -- by the ids of their limits, and those in order

--@ load
do
	local at = 1
	while at <= #more do
		local id = #more > at + 2 and struct.unpack('<I4', more, at)
		order[#order + 1] = id
		lines[id], at = unpacked(more, at + 4)
		if not at then return redis.error_reply(DAMAGED) end
	end
end

--@ open
--@ each open
if booked <= now then booked = 0 end
if ahead > 0 then lines = {} end

--@ stand
reply[2] = struct.pack('<dd', booked, before)
if booked > 0 then
	--@ each line
end

--@ fits
local moment, paid = now, false -- that it is admitted for, and where it is on the lines
if within > 0 then
	fits = true
	--@ each possible
	if fits then
		moment = math.max(now, paused)
		local moved = true
		while moved do
			moved = false
			--@ each first
		end
		local late = moment - within
		--@ each late
		fits = late <= now
	end
end

--@ charge
if booked == 0 and moment > now then
	booked, before = moment, serial - 1
	--@ each begin
end
if booked > 0 and cost > 0 then paid = {} end
if within > 0 then
	--@ each place
	if paid then booked = math.max(booked, moment) end
else
	if paid then
		--@ each paid
	end
	--@ each charge
end

--@ said
if paid then
	said = said .. struct.pack('<d' .. string.rep('d', #paid), moment, unpack(paid))
	spill = spill or {}
	spill[#spill + 1], spill[#spill + 2] = id, string.sub(said, 17)
else
	fresh[#fresh + 1] = said
end
news[id] = said

--@ store
do
	local parts = {}
	if booked > 0 then
		--@ each kept
		for _, id in ipairs(order) do
			if lines[id] and #parts < ENTRIES then parts[#parts + 1] = struct.pack('<I4', id) .. packed(lines[id]) end
		end
	end
	parts = table.concat(parts)
	block = booked > 0 and parts .. struct.pack('<ddI4', booked, before, #parts) or ''
end

--@ back
--@ each was
--@ each refund
if booked > 0 then
	-- Where it is on the lines; but one of before the first that is booked is on none.
	local whole, @froms, @wholes
	if given > before and ARGV[2] ~= '' then whole, @froms, @wholes = struct.unpack('<d@places@places', ARGV[2]) end
	local quiet = true -- all was given back
	--@ each back
	if quiet then booked = 0 end
end
