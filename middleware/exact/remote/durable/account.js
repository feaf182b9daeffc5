// What one key has counted under the policies of one name: package exact's Account, in
// JavaScript. The clock is an argument. What has changed is written through a store at once;
// the caller makes one transaction of it.

import { Back, firstSerial, late } from './back.js'
import { ID_LIFE, Line, Log, MAX_QUOTA, MAX_DEBT, Refusal, SECOND, charged, expires, laterEnd, left, remaining, roll, seconds, until, wait } from './limits.js'

const MAX_IDS = 1 << 16 // that are known at a time: beyond it a key is busy
const MAX_ENTRIES = 32

const blank = () => ({ at: 0, cur: 0, prev: 0 })

export class Account {
	// store is told what changes; state is what it has kept.
	constructor(store, state) {
		this.store = store
		this.latest = 0 // the last charge: time does not step back behind it
		this.hold = 0 // for how long it stands still there at most
		this.serial = 0
		this.back = new Back()
		this.paused = 0
		this.seen = 0 // when it was seen to be idle, and was not charged since
		this.booked = 0 // the last moment that a call is booked for
		this.since = 0
		this.entries = new Map() // by the limit's id: { ends, state, log, line }
		this.answers = new Map() // by ID: { given, at, cost, serial }
		Object.assign(this, state)
	}

	// take decides a call and charges it if it is admitted.
	take(now, call) {
		const [from, at] = this.at(now)
		const known = from.answers.get(call.id)
		if (known && at - known.given < ID_LIFE) return this.replay(now, known, call)
		if (from.answers.size >= MAX_IDS) from.forgetAnswers(at)
		if (from.answers.size >= MAX_IDS) throw new Refusal('busy')
		const s = new Working(from, at, call.policy)
		const v = s.take(call, true)
		if (!v.admitted) return later(v, at - now)
		if (from !== this) {
			this.store.forget()
			Object.assign(this, from)
		}
		if (call.cost > 0) {
			if (this.serial === 0) this.back.floor = this.serial = firstSerial(at)
			this.serial += numbersOf(call)
			v.receipt = { serial: s.serialOf(this.serial, call), at: Math.max(at, s.moment) }
			v.cost = call.cost
		}
		this.latest = at
		this.keep(s)
		this.forgetAnswers(at)
		const answer = { given: at, at: v.receipt?.at ?? 0, cost: v.cost ?? 0, serial: v.receipt?.serial ?? '' }
		this.answers.set(call.id, answer)
		this.store.answered(call.id, answer)
		return stand(v, at - now)
	}

	// peek says what take would.
	peek(now, call) {
		const [from, at] = this.at(now)
		return stand(new Working(from, at, call.policy).take(call, false), at - now)
	}

	replay(now, known, call) {
		const { limits } = this.peek(now, { cost: 0, policy: call.policy })
		const [, at] = this.at(now) // what was charged before a clock stepped back is not booked
		const v = { admitted: true, impossible: false, replayed: true, wait: known.at > at ? known.at - now : 0, limits }
		if (known.cost > 0) {
			v.receipt = { serial: known.serial, at: known.at }
			v.cost = known.cost
		}
		return v
	}

	// refund gives back a charge, once, while it counts, or says why not.
	refund(now, r) {
		const is = parseSerial(r)
		if (!is || r.cost < 1 || is.number < 1 || is.number > this.serial) return 'no-refund'
		const [from, at] = this.at(now)
		if (from !== this || countsUntil(r.policy, r.at, r.cost) <= at) return 'no-refund'
		if (late(is.number - numbersOf(r) + 1, this.serial)) return 'late-refund'
		r = this.give(is.number, r)
		if (!r) return 'no-refund'
		this.store.gaveBack(this.back)
		const s = new Working(this, at, r.policy)
		s.refund(r, is)
		this.keep(s)
	}

	// give notes what comes back of a charge, and returns what did not before. A charge with costs of its own on each limit has a
	// number for each, the first limit's last.
	give(number, r) {
		if (!r.costs) return this.back.give(number, this.serial) && r
		const costs = r.costs.map((cost, i) => (cost > 0 && number > i && this.back.give(number - i, this.serial) ? cost : 0))
		return costs.some((cost) => cost > 0) && { ...r, costs }
	}

	// expires returns from when on nothing of the account counts any more.
	expires() {
		let last = this.paused > this.latest ? this.paused : 0
		for (const e of this.entries.values()) last = Math.max(last, e.ends * SECOND)
		for (const a of this.answers.values()) last = Math.max(last, a.given + ID_LIFE)
		return last
	}

	// idle reports whether it may be forgotten.
	idle(now) {
		const [from, at] = this.at(now)
		return from.expires() <= at
	}

	// forgotten reports whether it may be forgotten: it is idle, and was seen to be so before, a
	// window ago, or an hour. One moment of a clock that is ahead is not believed.
	forgotten(now) {
		if (!this.idle(now)) return false
		if (this.latest === 0) return true // nothing is stored
		if (this.seen > 0 && this.seen <= now) return this.seen + this.believes() <= now
		this.seen = now
		this.store.save(this)
		return false
	}

	believes() { return Math.min(this.hold, 3600 * SECOND) }

	// at returns the account as it is to be decided, and when: now, or the latest time seen where
	// the clock has stepped back. What a clock that was wrong has charged counts nothing.
	at(now) {
		if (now >= this.latest) return [this, now]
		if (this.latest - now > this.hold) return [new Account(this.store, { serial: this.serial, back: new Back(this.serial) }), now]
		return [this, this.latest]
	}

	// forgetAnswers drops what need not be known any more. (The store does so by itself.)
	forgetAnswers(at) {
		for (const [id, a] of this.answers) {
			if (at - a.given < ID_LIFE) return
			this.answers.delete(id)
		}
	}

	// keep puts back what a working copy has changed, and forgets what has ended.
	keep(s) {
		const { policy } = s
		const drop = (id) => {
			this.entries.delete(id)
			this.store.dropped(id)
		}
		for (const [id, e] of this.entries) if (e.ends * SECOND <= s.now && !policy.ids.has(id)) drop(id)
		if (![...this.entries.keys()].some((id) => !policy.ids.has(id))) this.hold = 0
		this.hold = Math.max(this.hold, policy.hold, s.paused - this.latest)
		this.paused = s.paused
		this.seen = 0
		this.booked = s.booked
		this.since = s.since
		policy.limits.forEach((l, i) => {
			if (!this.entries.has(l.id)) {
				if (this.entries.size === MAX_ENTRIES) {
					const others = [...this.entries].filter(([id]) => !policy.ids.has(id))
					drop(others.reduce((a, b) => (b[1].ends < a[1].ends ? b : a))[0])
				}
				this.entries.set(l.id, {})
			}
			const e = this.entries.get(l.id)
			e.state = s.states[i]
			if (l.logged) {
				e.log = s.logs[i]
				this.store.logged(l.id, e.log.dirty)
				e.log.dirty = []
			}
			if (l.interval > 0) this.hold = Math.max(this.hold, e.state.at - this.latest)
			e.line = s.lines && l.interval > 0 ? s.lines[i] : undefined
			e.ends = s.ends(i)
		})
		if (this.booked === 0) for (const e of this.entries.values()) e.line = undefined
		this.store.save(this)
	}
}

// A Working is an account under the limits of one policy, at one moment.
class Working {
	constructor(a, now, policy) {
		Object.assign(this, { policy, now, moment: now, paused: a.paused, serial: a.serial, booked: 0, since: 0, lines: undefined, paid: undefined })
		this.states = policy.limits.map((l) => ({ ...(a.entries.get(l.id)?.state ?? blank()) }))
		if (a.booked > 0) this.openLines(a)
		this.states = policy.limits.map((l, i) => roll(l, now, this.states[i]))
		this.logs = policy.limits.map((l) => (l.logged ? a.entries.get(l.id)?.log ?? new Log() : undefined))
		this.rolled = this.logs.map((log) => log?.rolled(now))
	}

	// openLines adds what is needed while calls are booked, and ends that when the moment of the
	// last has come.
	openLines(a) {
		this.booked = a.booked
		this.since = a.since
		this.lines = this.policy.limits.map((l, i) => {
			const e = a.entries.get(l.id)
			if (!e || l.interval === 0) return new Line(0)
			const s = this.states[i]
			const line = e.line?.clone() ?? new Line(Math.max(s.at, this.now))
			if (this.booked <= this.now) s.at = line.close(this.now, s.at)
			line.pass(this.now)
			return line
		})
		if (this.booked <= this.now) this.quieted()
	}

	quieted() {
		this.lines = undefined
		this.booked = 0
	}

	// take decides a call as it asks for it, and charges what it admits if charge is set.
	take(call, charge) {
		const rest = Math.max(0, this.paused - this.now)
		if (call.pause > 0 && charge) this.paused = Math.max(this.paused, this.now + call.pause)
		let v
		if (call.past || call.cost === 0) {
			if (charge) this.charge(call)
			v = this.decide(nothing, false)
		} else if (call.ahead > 0) {
			v = this.book(call, charge)
		} else if (rest > 0) {
			v = this.decide(call, false)
			v.admitted = false
			if (!v.impossible) v.wait = Math.max(v.wait, seconds(rest))
		} else {
			this.behind()
			v = this.decide(call, charge)
		}
		const still = this.paused - this.now
		if (still > 0) for (const of of v.limits) Object.assign(of, { remaining: 0, reset: Math.max(of.reset, seconds(still)), blocked: !v.admitted })
		return v
	}

	room(i) {
		const l = this.policy.limits[i]
		return l.logged ? l.quota - this.rolled[i].used : remaining(l, this.now, this.states[i])
	}

	wait(i, cost) {
		const l = this.policy.limits[i]
		return l.logged ? this.logs[i].wait(this.rolled[i], this.now, l.quota, cost) : wait(l, this.now, this.states[i], cost)
	}

	// decide checks every limit, and charges all if all of them have room and charge is set.
	decide(call, charge) {
		const { limits } = this.policy
		const v = { admitted: true, impossible: false, wait: 0, limits: [] }
		limits.forEach((l, i) => {
			const cost = costOf(call, i)
			const impossible = cost > l.capacity
			const blocked = impossible || (cost > 0 && cost > this.room(i))
			v.limits.push({ remaining: 0, reset: 0, blocked })
			v.impossible ||= impossible
			v.admitted &&= !blocked
			if (blocked && !impossible) v.wait = Math.max(v.wait, seconds(Math.max(1, this.wait(i, cost))))
		})
		if (v.impossible) v.wait = 0
		if (v.admitted && charge) {
			limits.forEach((l, i) => {
				const cost = costOf(call, i)
				if (cost === 0) return
				if (l.logged) this.owe(i, cost)
				else if (l.interval > 0) this.states[i].at = Math.max(this.states[i].at, this.now) + cost * l.interval
				else this.states[i].cur += cost
			})
		}
		limits.forEach((l, i) => {
			const [of, cost] = [v.limits[i], costOf(call, i)]
			of.remaining = Math.max(0, this.room(i))
			if (of.blocked && cost <= l.capacity) of.reset = seconds(Math.max(1, this.wait(i, cost)))
			else if (of.remaining < l.capacity && !(of.blocked && l.logged)) of.reset = seconds(this.wait(i, of.remaining + 1))
		})
		return v
	}

	owe(i, cost) {
		this.logs[i].forget(this.rolled[i])
		const l = this.policy.limits[i]
		this.logs[i].owe(l.ends ? laterEnd(l, this.now, this.logs[i].entries.at(-1)) : until(l, this.now), cost, l.most)
		this.rolled[i] = this.logs[i].rolled(this.now)
	}

	// behind notes that a call is charged behind what is there already.
	behind() { if (this.lines) this.paid = this.states.map((s) => Math.max(s.at, this.moment)) }

	// charge charges every limit, whether it has room or not.
	charge(call) {
		if (call.cost === 0) return
		this.behind()
		this.policy.limits.forEach((l, i) => {
			const [s, cost] = [this.states[i], costOf(call, i)]
			if (cost === 0) return
			if (l.logged) this.owe(i, cost)
			else if (l.interval > 0) s.at = charged(l, Math.max(s.at, this.moment), this.moment, cost)
			else s.cur = Math.min(s.cur + cost, MAX_QUOTA)
		})
	}

	line(i) { return this.lines ? this.lines[i] : new Line(0) }

	// book charges a call at the first moment at which all limits have room, if that is near
	// enough.
	book(call, charge) {
		const { limits } = this.policy
		const v = this.decide(call, false)
		if (v.impossible) return v
		const fits = limits.map((l) => ({ length: call.cost * l.interval, empties: l.empties }))
		let at = Math.max(this.moment, this.paused)
		for (let moved = true; moved; ) {
			moved = false
			limits.forEach((_, i) => {
				const first = this.line(i).first(at, this.states[i].at, fits[i])
				if (first > at) [at, moved] = [first, true]
			})
		}
		let late = at - call.ahead
		limits.forEach((_, i) => { late = Math.max(late, Math.max(at, this.states[i].at) + fits[i].length - MAX_DEBT) })
		v.admitted = late <= this.now
		if (!v.admitted) {
			v.wait = seconds(late - this.now)
			return v
		}
		if (charge) this.place(at, fits)
		const booked = this.decide(nothing, false)
		booked.wait = Math.max(0, at - this.now)
		return booked
	}

	// place charges a call that is admitted for a moment at which all limits have room.
	place(at, fits) {
		if (!this.lines && at > this.moment) { // the first that is booked
			this.lines = this.states.map((s) => new Line(Math.max(s.at, this.moment)))
			this.since = this.serial
		}
		const paid = []
		fits.forEach((fit, i) => {
			const [from, mark] = this.line(i).take(at, this.states[i].at, fit)
			this.states[i].at = mark
			paid.push(Math.max(from, this.moment))
		})
		this.paid = this.lines && paid
		this.booked = Math.max(this.booked, at)
		this.moment = at
	}

	// serialOf writes what a receipt must tell: its number, and where its charge is.
	serialOf(number, { cost, costs = [] }) {
		if (!this.paid) return number.toString(36)
		return [number, cost, ...this.paid.map((from) => from - this.moment), ...costs].map((n) => n.toString(36)).join('_')
	}

	// refund takes back what was charged at a moment.
	refund(r, is) {
		const { limits } = this.policy
		limits.forEach((l, i) => {
			const [s, cost] = [this.states[i], costOf(r, i)]
			if (cost === 0) return
			if (l.logged) {
				this.logs[i].forget(this.rolled[i])
				const end = until(l, r.at)
				const last = this.logs[i].entries.at(-1)
				this.logs[i].restore(l.ends && last && end > this.now ? last[0] : end, cost)
				this.rolled[i] = this.logs[i].rolled(this.now)
			} else if (l.interval === 0) {
				const passed = s.at - Math.floor(r.at / l.window)
				if (passed === 0) s.cur -= Math.min(s.cur, cost)
				if (passed === 1) s.prev -= Math.min(s.prev, cost)
			} else if (!this.lines) {
				s.at -= left(l, r.at, this.now, Math.max(0, s.at - this.now), cost)
			} else {
				this.refundLine(i, r, is)
			}
			if (l.interval > 0 && s.at <= this.now) s.at = 0
		})
		// The bookings end if all were given back.
		if (this.lines && limits.every((l, i) => this.lines[i].holes.length === 0 && (l.interval === 0 || this.states[i].at <= this.lines[i].base))) this.quieted()
	}

	refundLine(i, r, is) {
		const [l, s, line] = [this.policy.limits[i], this.states[i], this.lines[i]]
		const [cost, whole] = [costOf(r, i), is.costs?.[i] ?? is.cost]
		let from, to
		if (is.from && is.number > this.since) {
			from = r.at + is.from[i]
			to = charged(l, from, r.at, whole)
			if (cost < whole) from = Math.max(from, to - cost * l.interval)
		} else { // the last of what was charged before any was booked
			to = line.base
			line.base -= left(l, r.at, this.now, Math.max(0, line.base - this.now), cost)
			from = line.base
		}
		s.at = line.free(from, to, s.at)
	}

	// ends returns the second from which a limit counts nothing.
	ends(i) {
		const l = this.policy.limits[i]
		if (!l.logged) return expires(l, this.states[i])
		const last = this.logs[i].entries.at(-1)
		return last ? Math.floor(last[0] / SECOND) + 1 : 0
	}
}

// nothing is the price of a call that only looks.
const nothing = { cost: 0 }

// costOf returns what a call has a limit charged.
function costOf({ cost, costs }, i) { return costs ? costs[i] : cost }

// numbersOf returns how many numbers a charge has.
function numbersOf({ costs }) { return costs ? costs.length : 1 }

// parseSerial reads what serialOf has written; nothing of what it has not.
function parseSerial(r) {
	if (!/^[0-9a-z]{1,13}(_-?[0-9a-z]{1,13})*$/.test(r.serial)) return undefined
	const [number, cost, ...from] = r.serial.split('_').map((word) => parseInt(word, 36))
	if (cost === undefined) return { number }
	const { length } = r.policy.limits
	if ((from.length !== length && from.length !== 2 * length) || cost < r.cost || cost > MAX_QUOTA) return undefined
	return { number, cost, from: from.slice(0, length), costs: from.length > length ? from.slice(length) : undefined }
}

// countsUntil returns from when a charge made at a time counts in no window, and no bucket
// owes it.
function countsUntil(policy, at, cost) {
	return Math.max(...policy.limits.map((l) => {
		if (l.logged) return until(l, at)
		if (l.interval > 0) return at + Math.max(l.window, Math.min(cost, Math.floor(MAX_DEBT / l.interval)) * l.interval)
		return (Math.floor(at / l.window) + (l.algorithm === 'sliding-window' ? 2 : 1)) * l.window
	}))
}

// stand has a verdict of an account that stands still tell the truth: all takes longer.
function stand(v, by) {
	const wait = v.wait + by
	const booked = v.admitted && v.wait > 0
	later(v, by)
	if (booked) v.wait = wait // to the moment, not in whole seconds
	return v
}

function later(v, by) {
	if (by <= 0) return v
	by = seconds(by)
	if (v.wait > 0) v.wait += by
	for (const of of v.limits) if (of.reset > 0) of.reset += by
	return v
}
