// The owner, by the clock that each request of a test brings with it.
import { serve, Tally } from './owner.js'

let clock = 0 // µs

export class Clocked extends Tally {
	now() { return clock }

	// woken does what an alarm does, and says what is stored then.
	async woken() {
		await this.alarm()
		const tables = this.ctx.storage.sql.exec("SELECT name FROM sqlite_master WHERE name IN ('account', 'answers', 'charges', 'refunded')").toArray()
		return { tables: tables.length, again: (await this.ctx.storage.getAlarm()) !== null }
	}
}

export default {
	async fetch(request, env) {
		clock = Number(request.headers.get('Clock'))
		const wake = request.headers.get('Wake')
		if (wake) return Response.json(await env.TALLIES.get(env.TALLIES.idFromName(wake.replace(' ', '\0'))).woken())
		return serve(request, env, () => clock)
	},
}
