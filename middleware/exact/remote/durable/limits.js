// What a limit means: the arithmetic of the Go package storeless, and of the logs and lines
// of package exact. Times are whole microseconds since 1970, below 2^53 until the year 2255,
// so that a double holds them and their quotients; products that it would not hold are BigInt.

export const SECOND = 1e6
const MINUTE = 60 * SECOND
const DAY = 86400 * SECOND
const MAX_WINDOW = 366 * 86400 // seconds
export const MAX_QUOTA = 2 ** 31 - 1
export const MAX_DEBT = MAX_WINDOW * SECOND // how much a bucket owes at most
export const ID_LIFE = 10 * SECOND // for how long the ID of an admitted call is known
const MAX_LOG = 10_000 // charges that a log keeps

// How long the windows of the calendar are, in seconds: the shortest, as a policy has it, and the longest.
const CALENDARS = { 'calendar-day': [82800, 90000], 'calendar-week': [601200, 608400], 'calendar-month': [2419200, 2682000] }

const ALGORITHMS = [...Object.keys(CALENDARS), 'sliding-window', 'fixed-window', 'token-bucket', 'leaky-bucket', 'sliding-log', 'rolling-day']

// A Refusal is an error of the wire: nothing was counted.
export class Refusal extends Error {}

export const whole = (n, from, to) => Number.isInteger(n) && n >= from && n <= to
const named = (s, most) => typeof s === 'string' && s.length <= most && /^[a-z0-9-]+$/.test(s)

// compile checks a policy, as it is on the wire.
export function compile(p) {
	if (!named(p?.name, 32) || !Array.isArray(p.limits) || !whole(p.limits.length, 1, 8)) throw new Refusal('malformed')
	const limits = p.limits.map(limit)
	if (new Set(limits.map((l) => l.name)).size < limits.length) throw new Refusal('malformed')
	return {
		name: p.name,
		limits,
		ids: new Set(limits.map((l) => l.id)),
		hold: Math.max(...limits.map((l) => Math.max(l.window, l.empties))),
		bucketsOnly: limits.every((l) => l.interval > 0),
	}
}

function limit(l) {
	if (!named(l?.name, 48) || typeof l.algorithm !== 'string') throw new Refusal('malformed')
	if (!ALGORITHMS.includes(l.algorithm)) throw new Refusal('algorithm')
	const { name, algorithm, quota, window: seconds, ends } = l
	const [shortest, longest] = CALENDARS[algorithm] ?? []
	const logged = algorithm === 'sliding-log' || algorithm === 'rolling-day' || shortest > 0
	const bucket = algorithm === 'token-bucket'
	const burst = l.burst || (bucket ? quota : 0)
	if (!whole(quota, 1, algorithm === 'sliding-log' ? MAX_LOG : MAX_QUOTA) || !whole(seconds, 1, MAX_WINDOW) ||
		(algorithm === 'rolling-day' && seconds !== 86400) ||
		(shortest && (seconds !== shortest || !Array.isArray(ends) || ends.length !== 3 || !ends.every((e, i) => whole(e, i > 0 ? ends[i - 1] + 1 : 0, 2 ** 32)))) ||
		(bucket ? !whole(burst, 1, MAX_QUOTA) || burst > Math.floor((MAX_WINDOW * quota) / seconds) : burst !== 0)) throw new Refusal('malformed')
	const window = (longest ?? seconds) * SECOND
	const interval = bucket || algorithm === 'leaky-bucket' ? Math.floor((window + quota - 1) / quota) : 0
	const capacity = bucket ? burst : interval > 0 ? 1 : quota
	return { id: `${algorithm} ${seconds} ${name}`, name, algorithm, quota, window, interval, capacity, empties: interval > 0 ? capacity * interval : 0, logged, ends: shortest && ends, most: shortest ? 1 : MAX_LOG }
}

// seconds rounds up to whole seconds; what has passed is zero.
export const seconds = (us) => Math.max(0, Math.ceil(us / SECOND)) * SECOND

const muldiv = (a, b, c) => Number((BigInt(a) * BigInt(b)) / BigInt(c))
const muldivup = (a, b, c) => Number((BigInt(a) * BigInt(b) + BigInt(c) - 1n) / BigInt(c))

// roll brings the state of a window or a bucket to the present.
export function roll(l, now, s) {
	if (l.interval > 0) return { at: s.at <= now ? 0 : s.at, cur: 0, prev: 0 }
	const window = Math.floor(now / l.window)
	if (s.at >= window) return { ...s }
	return { at: window, cur: 0, prev: s.at === window - 1 && l.algorithm === 'sliding-window' ? s.cur : 0 }
}

// remaining returns how much cost would pass now; less than nothing where a quota was lowered,
// or more was charged than there was room for. s is rolled.
export function remaining(l, now, s) {
	if (l.interval > 0) return Math.trunc((l.empties - Math.max(0, s.at - now)) / l.interval)
	const left = l.quota - s.cur
	return s.prev === 0 ? left : left - muldivup(s.prev, l.window - Math.max(0, now - s.at * l.window), l.window)
}

// wait returns for how long cost, from 1 to the capacity, would not pass. s is rolled.
export function wait(l, now, s, cost) {
	if (l.interval > 0) return Math.max(0, s.at - now) + cost * l.interval - l.empties
	const start = s.at * l.window
	const spare = l.quota - cost
	if (s.cur > spare) {
		if (l.algorithm === 'fixed-window') return start + l.window - now
		return start + 2 * l.window - muldiv(spare, l.window, s.cur) - now
	}
	if (s.prev === 0) return 0
	return start + l.window - muldiv(Math.min(spare - s.cur, s.prev), l.window, s.prev) - now
}

// expires returns a second from which a state counts nothing.
export function expires(l, s) {
	if (l.interval > 0) return s.at === 0 ? 0 : ((Math.floor(s.at / l.window) + 2) * l.window) / SECOND
	return s.cur === 0 && s.prev === 0 ? 0 : ((s.at + 2) * l.window) / SECOND
}

// charged returns the mark of a bucket that has been charged from a mark on, at a moment.
export function charged(l, from, at, cost) {
	const start = Math.max(from, at)
	return start + Math.min(cost, Math.floor(Math.max(0, at + MAX_DEBT - start) / l.interval)) * l.interval
}

// left returns how much of what a bucket owes a refund takes away: what has leaked out since
// is gone.
export function left(l, at, now, owed, cost) {
	const back = Math.min(cost, Math.floor(MAX_DEBT / l.interval)) * l.interval - Math.max(0, now - at)
	return Math.max(0, Math.min(owed, back))
}

// until returns the moment from which a charge of a log does not count any more. Where a window of the calendar
// ends the call says, and of the next: beyond that one it is the longest that it can be.
export function until(l, at) {
	if (l.ends) return (l.ends.find((end) => at < end * SECOND) ?? Math.floor(at / SECOND) + l.window / SECOND) * SECOND
	return l.algorithm === 'rolling-day' ? Math.floor(at / MINUTE) * MINUTE + MINUTE + DAY : at + l.window
}

// laterEnd returns when a charge of the calendar ends, in the window that is open, if one is. An end that is near to the
// beginning of the call's own window is of the one before, which is open for that much longer by other time zones.
export function laterEnd(l, at, open) {
	const end = until(l, at)
	const start = l.ends.map((e) => e * SECOND).findLast((e) => e <= at) ?? Math.min(at, l.ends[0] * SECOND - l.window)
	if (open && 2 * open[0] < start + end) return open[0]
	return Math.max(end, open?.[0] ?? 0)
}

// A Log holds what a sliding log or a rolling day remembers: charges in the order in which they
// end, and their sum. A window of the calendar is a log of one entry. dirty says which of them storage does not know yet.
export class Log {
	constructor(entries = []) {
		this.entries = entries // [until, cost]
		this.used = entries.reduce((sum, e) => sum + e[1], 0)
		this.dirty = []
	}

	// rolled returns how many entries have ended at a time, and the sum of the others.
	rolled(now) {
		let [ended, used] = [0, this.used]
		for (; ended < this.entries.length && this.entries[ended][0] <= now; ended++) used -= this.entries[ended][1]
		return { ended, used }
	}

	// forget drops what has ended.
	forget({ ended, used }) {
		for (const [end] of this.entries.splice(0, ended)) this.dirty.push([end, 0])
		this.used = used
	}

	// owe adds cost, up to what a count can hold. What is above the most entries joins the last.
	owe(end, cost, most) {
		cost = Math.min(cost, MAX_QUOTA - this.used)
		if (cost <= 0) return
		let last = this.entries.at(-1)
		if (last && last[0] !== end && this.entries.length >= most) {
			this.dirty.push([last[0], 0])
			last[0] = end
		}
		if (last?.[0] !== end) this.entries.push((last = [end, 0]))
		last[1] += cost
		this.used += cost
		this.dirty.push([end, last[1]])
	}

	// restore takes cost back from what ends at a moment.
	restore(end, cost) {
		const i = this.entries.findLastIndex((e) => e[0] === end)
		if (i < 0) return
		const e = this.entries[i]
		cost = Math.min(cost, e[1])
		e[1] -= cost
		this.used -= cost
		if (e[1] === 0) this.entries.splice(i, 1)
		this.dirty.push([end, e[1]])
	}

	// wait returns for how long this cost has no room. It looks at as many entries as that; of the
	// others each holds at least 1.
	wait({ ended, used }, now, quota, cost) {
		const looked = 256
		const n = this.entries.length
		let [over, last, i] = [used + cost - quota, now, ended]
		for (; over > 0 && i < n && i < ended + looked; i++) {
			over -= this.entries[i][1]
			last = this.entries[i][0]
		}
		if (over > 0 && i < n) last = this.entries[Math.min(i + over, n) - 1][0]
		return last - now
	}
}

const MAX_HOLES = 64

// A Line is kept of a bucket while calls are booked: the time that its charges take, one
// behind the other, and the holes in it that were given back. See line.go of package exact for
// why that admits no more than the bucket does.
export class Line {
	constructor(base, holes = []) {
		this.base = base
		this.holes = holes // [from, to]
	}

	clone() { return new Line(this.base, this.holes.map((h) => [...h])) }

	first(at, mark, fit) {
		for (const [from, to] of this.holes) {
			if (to - from >= fit.length && at <= to - fit.length) return Math.max(at, from + fit.length - fit.empties)
		}
		return Math.max(at, mark + fit.length - fit.empties)
	}

	take(at, mark, fit) {
		for (const [i, [start, to]] of this.holes.entries()) {
			if (to - start < fit.length || at > to - fit.length) continue
			const from = Math.max(start, at)
			this.holes.splice(i, 1)
			this.add(start, from)
			this.add(from + fit.length, to)
			return [from, mark]
		}
		return [mark, Math.max(mark, at) + fit.length]
	}

	free(from, to, mark) {
		from = Math.max(from, this.base)
		if (to > mark || from >= to) return mark
		this.add(from, to)
		if (this.holes.at(-1)[1] === mark) mark = this.holes.pop()[0]
		return mark
	}

	add(from, to) {
		if (from >= to) return
		let i = 0
		while (i < this.holes.length && this.holes[i][1] < from) i++
		let j = i
		for (; j < this.holes.length && this.holes[j][0] <= to; j++) {
			from = Math.min(from, this.holes[j][0])
			to = Math.max(to, this.holes[j][1])
		}
		this.holes.splice(i, j - i, [from, to])
		if (this.holes.length > MAX_HOLES) this.holes.shift()
	}

	pass(at) { while (this.holes.length > 0 && this.holes[0][1] <= at) this.holes.shift() }

	close(at, mark) {
		for (const [from, to] of this.holes) mark -= Math.max(0, to - Math.max(from, at))
		return mark
	}
}
