-- What scripts have besides that know of calls that are booked: the line of a bucket, as
-- package exact has it (line.go says why no more is admitted than without). It is a list: its
-- base, the mark before the first call that is booked; and its holes, what was given back
-- between that and the mark, in order, each from when to when. A charge of a cost has a length
-- on it, an interval for each unit.

-- HOLES is how many a line has at most. Of more the first goes.
local HOLES = 64

-- add adds a hole, if it is one, as part of those that it touches.
local function add(line, from, to)
	if from >= to then return end
	local i = 2
	while line[i] and line[i + 1] < from do i = i + 2 end
	while line[i] and line[i] <= to do
		from, to = math.min(from, line[i]), math.max(to, line[i + 1])
		table.remove(line, i)
		table.remove(line, i)
	end
	table.insert(line, i, to)
	table.insert(line, i, from)
	if #line > 1 + 2 * HOLES then
		table.remove(line, 2)
		table.remove(line, 2)
	end
end

-- first returns the first moment, not before at, at which there is room. There may be no line.
local function first(line, at, mark, length, empties)
	for i = 2, line and #line or 0, 2 do
		if line[i + 1] - line[i] >= length and at <= line[i + 1] - length then
			return math.max(at, line[i] + length - empties)
		end
	end
	return math.max(at, mark + length - empties)
end

-- placed puts a charge of a moment where first has found room. Returns from where it is there,
-- what it skips included, and the mark.
local function placed(line, at, mark, length)
	for i = 2, line and #line or 0, 2 do
		local from, to = line[i], line[i + 1]
		if to - from >= length and at <= to - length then
			local is = math.max(from, at)
			table.remove(line, i)
			table.remove(line, i)
			add(line, from, is)
			add(line, is + length, to)
			return is, mark
		end
	end
	return mark, math.max(mark, at) + length
end

-- freed gives back what is from and to, and returns the mark: what was last steps back.
local function freed(line, from, to, mark)
	from = math.max(from, line[1])
	if to > mark or from >= to then return mark end
	add(line, from, to)
	if line[#line] == mark then
		mark = line[#line - 1]
		table.remove(line)
		table.remove(line)
	end
	return mark
end

-- pass forgets the holes that are over.
local function pass(line, now)
	while line[3] and line[3] <= now do
		table.remove(line, 2)
		table.remove(line, 2)
	end
end

-- closed returns the mark as if nothing had ever been in the holes.
local function closed(line, now, mark)
	for i = 2, #line, 2 do mark = mark - math.max(0, line[i + 1] - math.max(line[i], now)) end
	return mark
end

-- packed and unpacked are what a line is stored as: base, how many holes, the holes. Where v has fewer
-- there is no line.
local function packed(line)
	return struct.pack('<dI2' .. string.rep('d', #line - 1), line[1], (#line - 1) / 2, unpack(line, 2))
end

local function unpacked(v, at)
	if #v < at + 9 then return end
	local base, holes = struct.unpack('<dI2', v, at)
	if #v < at + 9 + 16 * holes then return end
	local line = { struct.unpack('<' .. string.rep('d', 2 * holes), v, at + 10) }
	at = table.remove(line)
	table.insert(line, 1, base)
	return line, at
end
