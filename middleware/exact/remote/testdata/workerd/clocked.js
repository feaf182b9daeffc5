// The owner, by the clock that each request of a test brings with it.
import { serve, Tally } from './owner.js'

let clock = 0 // µs

export class Clocked extends Tally {
	now() { return clock }

	// woken does what an alarm does, and says what is stored then.
	async woken() {
		await this.alarm()
		const tables = this.rows("SELECT name FROM sqlite_master WHERE name IN ('account', 'answers', 'charges', 'back')")
		return { tables: tables.length, again: (await this.ctx.storage.getAlarm()) !== null }
	}

	// rows runs some SQL in storage.
	rows(query) {
		this.account = undefined
		return this.ctx.storage.sql.exec(query).toArray()
	}
}

export default {
	async fetch(request, env) {
		clock = Number(request.headers.get('Clock'))
		const tally = (name) => env.TALLIES.get(env.TALLIES.idFromName(name.replace(' ', '\0')))
		const wake = request.headers.get('Wake')
		if (wake) return Response.json(await tally(wake).woken())
		const look = request.headers.get('Look')
		if (look) return Response.json(await tally(look).rows(request.headers.get('Query')))
		return serve(request, env, () => clock, Number(request.headers.get('Patience') ?? 10_000))
	},
}
