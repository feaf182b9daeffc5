// An owner of tallies as a Cloudflare Worker: it answers what package remote of Tallystick
// asks, as docs/counters.md writes it down. Each key of a policy has a Durable Object, which
// counts it alone and keeps the count in its own storage: exact everywhere, and nothing to run.
//
// It needs two bindings: TALLIES, a namespace of the class Tally with SQLite storage, and
// SECRETS, the same as in remote.Config, in base64, one a line; the first signs, any verifies.

import { DurableObject } from 'cloudflare:workers'
import { Account } from './account.js'
import { compile, MAX_QUOTA, Refusal, SECOND, whole } from './limits.js'
import { Store } from './store.js'

const MAX_REQUEST = 128 << 10
const MAX_CALLS = 32 // in a request: an object is asked for each
const MAX_IDS = 256 // in a request
const SKEW = 4000 // ms that the time of a request may be from ours, either way
const MAX_WAIT = 10_000 // ms that a body is waited for
const MAX_AHEAD = 3600 * SECOND
const MAX_PAUSE = 86400 * SECOND
const MAC = 'Tallystick-Mac'
const MAC_LENGTH = 43
const DIGEST = 'Content-Digest'
const DIGEST_LENGTH = 54

export default { fetch: (request, env) => serve(request, env) }

// serve answers a request: each call of it by a line, as soon as it is done. now is the clock of
// what never comes to an object, in µs; patience is for how many ms a body is waited for.
export async function serve(request, env, now = () => Date.now() * 1000, patience = MAX_WAIT) {
	if (request.method !== 'POST') return new Response('a counter is asked by POST\n', { status: 405, headers: { Allow: 'POST' } })
	const keys = await ring(env.SECRETS)
	const sum = request.headers.get(MAC) ?? ''
	const digest = request.headers.get(DIGEST) ?? ''
	// Strangers choose how long a header is: no MAC is made of what is no digest.
	const good = sum.length === MAC_LENGTH && digest.length === DIGEST_LENGTH && (await verifies(keys, sum, `tallystick/v1/remote request\n\n${digest}`))
	if (!good) return new Response('the request is not signed with a secret of this counter\n', { status: 401 })
	const body = await read(request, patience)
	if (!body) return new Response('the request is too long, or was cut\n', { status: 400 })
	const is = new Uint8Array(await crypto.subtle.digest('SHA-256', body))
	if (`sha-256=:${base64(is)}:` !== digest) return new Response('the request is not what was signed\n', { status: 401 })
	const line = async (said) => {
		const text = JSON.stringify({ at: Math.floor(now() / 1000), ...said })
		const mac = await crypto.subtle.sign('HMAC', keys[0], concat(`tallystick/v1/remote answer\n${sum}\n${text}`))
		return concat(`${base64url(new Uint8Array(mac))} ${text}\n`)
	}
	const headers = { 'Content-Type': 'text/plain', 'Cache-Control': 'no-store' }
	const q = parse(body)
	if (!q) return new Response(await line({ error: 'malformed' }), { headers })
	if (!(Math.abs(Math.floor(now() / 1000) - q.at) <= SKEW)) return new Response(await line({ error: 'stale' }), { headers })
	let n = 0
	const lines = q.calls.map(async (c) => {
		const first = n
		n += verdicts(c)
		const said = await ask(env, q, c)
		return line({ verdicts: said.map((v, i) => ({ n: first + i, ...v })) })
	})
	if (lines.length === 1) return new Response(await lines[0], { headers })
	const { readable, writable } = new TransformStream()
	const to = writable.getWriter()
	Promise.all(lines.map(async (l) => to.write(await l))).then(() => to.close()).catch((e) => to.abort(e)) // the caller is gone
	return new Response(readable, { headers })
}

// parse reads a request, but not what its calls say.
function parse(body) {
	try {
		const q = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
		if (Number.isInteger(q.at) && Array.isArray(q.policies) && whole(q.calls.length, 1, MAX_CALLS) && q.calls.reduce((n, c) => n + verdicts(c), 0) <= MAX_IDS) return q
	} catch {
		// nor what is no JSON
	}
	return undefined
}

// verdicts returns how many a call has: one for each ID, or one.
const verdicts = (c) => Math.max(1, Array.isArray(c.ids) ? c.ids.length : 0)

// ask has the object of a call's key answer it.
async function ask(env, q, c) {
	const policy = q.policies[c.policy]
	const failed = (error) => Array.from({ length: verdicts(c) }, () => ({ error }))
	if ((c.op !== 'take' && c.ids !== undefined) || typeof c.key !== 'string' || !bytes(c.key) || typeof policy?.name !== 'string') return failed('malformed')
	const tally = env.TALLIES.get(env.TALLIES.idFromName(`${policy.name}\0${c.key}`))
	try {
		const said = await tally.ask({ ...c, at: q.at, policy })
		return said.error ? failed(said.error) : said.verdicts
	} catch (e) {
		console.error(e.stack) // it may have been done before it failed, unless it never came there
		return failed(e.overloaded ? 'busy' : 'maybe-counted')
	}
}

// A Tally counts one key.
export class Tally extends DurableObject {
	constructor(ctx, env) {
		super(ctx, env)
		this.store = new Store(ctx.storage)
	}

	// now is the clock that counts, in µs.
	now() { return Date.now() * 1000 }

	// ask does what a signed call asks for. It answers when storage has it.
	async ask(q) {
		const now = this.now()
		try {
			const verdicts = this.ctx.storage.transactionSync(() => {
				const verdicts = this.answer(q, now)
				this.store.flush()
				return verdicts
			})
			await this.ctx.storage.sync()
			await this.remind()
			return { verdicts }
		} catch (e) {
			this.account = undefined // what is in storage holds
			if (!(e instanceof Refusal)) throw e
			return { error: e.message }
		}
	}

	answer(q, now) {
		if (Math.abs(Math.floor(now / 1000) - q.at) > SKEW) throw new Refusal('stale')
		this.account ??= new Account(this.store, this.store.load())
		switch (q.op) {
		case 'take': {
			const call = callOf(q)
			if (!Array.isArray(q.ids) || q.ids.length === 0 || !q.ids.every((id) => bytes(id)?.length > 0)) throw new Refusal('call')
			if (!q.ids.every((id) => bytes(id).length <= 64)) throw new Refusal('call')
			this.mayBegin(q)
			return q.ids.map((id) => verdict(this.account.take(now, { ...call, id })))
		}
		case 'peek': {
			const call = callOf(q)
			this.mayBegin(q)
			return [verdict(this.account.peek(now, call))]
		}
		case 'refund': {
			const policy = compile(q.policy)
			const { serial, at } = q.receipt ?? {}
			if (typeof serial !== 'string' || !/^-?\d{1,19}$/.test(at)) throw new Refusal('no-refund')
			this.mayBegin(q)
			const refused = this.account.refund(now, { policy, serial, at: Number(BigInt(at) / 1000n), ...priceOf(q, policy) })
			if (refused) throw new Refusal(refused)
			return [{}]
		}
		}
		throw new Refusal('malformed')
	}

	// mayBegin refuses a call that no caller waits for.
	mayBegin(q) { if (!(q.wait > 0)) throw new Refusal('not-counted') }

	// remind has alarm called when nothing counts any more, and again if that was seen. It moves no
	// alarm: that would be a write for each charge.
	async remind() {
		this.alarmed ??= (await this.ctx.storage.getAlarm()) !== null
		if (this.alarmed || !(this.account?.latest > 0)) return
		const { account } = this
		const wait = account.seen > 0 ? account.believes() : account.expires() - this.now()
		await this.ctx.storage.setAlarm(Date.now() + Math.max(60_000, wait / 1000))
		this.alarmed = true
	}

	// alarm forgets the key if nothing of it counts any more, or looks again later.
	async alarm() {
		this.alarmed = false
		const account = (this.account ??= new Account(this.store, this.store.load()))
		if (!account.forgotten(this.now())) {
			this.store.flush()
			return this.remind()
		}
		this.account = undefined
		await this.ctx.storage.deleteAlarm()
		await this.ctx.storage.deleteAll()
	}
}

// callOf returns the call of a request.
function callOf(q) {
	const policy = compile(q.policy)
	const { past = false, ahead = 0, pause = 0 } = q
	const { cost, costs } = priceOf(q, policy)
	if (!Number.isInteger(cost) || !Number.isInteger(ahead) || !Number.isInteger(pause) || typeof past !== 'boolean' || ahead > MAX_AHEAD || pause > MAX_PAUSE) throw new Refusal('malformed')
	const wrong = !whole(bytes(q.key).length, 1, 256) || cost < 0 || (cost === 0 && pause === 0) || (costs && (ahead !== 0 || pause !== 0)) || (past && cost > MAX_QUOTA) ||
		ahead < 0 || (ahead > 0 && (past || pause !== 0 || !policy.bucketsOnly)) || pause < 0 || (pause > 0 && cost > 0 && !past)
	if (wrong) throw new Refusal('call')
	return { policy, cost, costs, past, ahead, pause }
}

// priceOf returns what a call costs: on each limit its own, if it says so, and cost is then the largest of them.
function priceOf({ cost, costs }, policy) {
	if (costs === undefined) return { cost }
	if (cost !== 0 || !Array.isArray(costs) || costs.length > policy.limits.length || !costs.every((c) => Number.isInteger(c) && c >= 0)) throw new Refusal('malformed')
	return { cost: Math.max(...costs), costs: policy.limits.map((_, i) => costs[i] ?? 0) }
}

// verdict writes a verdict. Its members come in the order that Go writes them in.
function verdict(v) {
	const w = {}
	if (v.admitted) w.admitted = true
	if (v.impossible) w.impossible = true
	if (v.replayed) w.replayed = true
	if (v.wait !== 0) w.wait = v.wait
	w.limits = v.limits.map((of) => [of.remaining, of.reset / SECOND, of.blocked ? 1 : 0])
	if (v.receipt) {
		w.receipt = { serial: v.receipt.serial, at: `${v.receipt.at}000` }
		w.cost = v.cost
	}
	return w
}

// ring derives a key from each secret.
async function ring(secrets) {
	const list = (secrets ?? '').split(/\s+/).filter((s) => s !== '').map((s) => bytes(s.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')))
	if (!whole(list.length, 1, 4) || !list.every((s) => s?.length >= 32)) throw new Error('SECRETS must be 1 to 4 of at least 32 random bytes, in base64, one a line')
	const key = (raw) => crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify'])
	return Promise.all(list.map(async (s) => key(await crypto.subtle.sign('HMAC', await key(s), new TextEncoder().encode('tallystick/v1/remote key')))))
}

// verifies reports whether a MAC of a text is of any key.
async function verifies(keys, mac, text) {
	const good = await Promise.all(keys.map((key) => crypto.subtle.verify('HMAC', key, bytes(mac) ?? new Uint8Array(), concat(text))))
	return good.includes(true)
}

// read returns the body of a request; nothing of one that is too long, or was cut, or does not
// come: one that was recorded may be sent again and never end.
async function read(request, patience) {
	if (!request.body) return concat()
	const reader = request.body.getReader()
	let timer
	const late = new Promise((resolve) => { timer = setTimeout(resolve, patience, { late: true }) })
	const parts = []
	let length = 0
	try {
		for (;;) {
			const { value, done, late: over } = await Promise.race([reader.read(), late])
			if (done) return concat(...parts)
			if (over || (length += value.length) > MAX_REQUEST) break
			parts.push(value)
		}
	} catch {
		return undefined // it was cut
	} finally {
		clearTimeout(timer)
	}
	reader.cancel().catch(() => {}) // it need not end
	return undefined
}

function concat(...parts) {
	const list = parts.map((p) => (typeof p === 'string' ? new TextEncoder().encode(p) : p))
	const all = new Uint8Array(list.reduce((n, p) => n + p.length, 0))
	let n = 0
	for (const p of list) {
		all.set(p, n)
		n += p.length
	}
	return all
}

const base64 = (b) => btoa(String.fromCharCode(...b))
const base64url = (b) => base64(b).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')

// bytes reads base64url without padding; nothing of what is not just that.
function bytes(s) {
	if (typeof s !== 'string' || !/^[A-Za-z0-9_-]*$/.test(s) || s.length % 4 === 1) return undefined
	const b = Uint8Array.from(atob(s.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0))
	return base64url(b) === s ? b : undefined
}
