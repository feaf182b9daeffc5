// The owner, by the clock that each request of a test brings with it.
import { serve, Tally } from './owner.js'

let clock = 0 // µs

export class Clocked extends Tally {
	now() { return clock }
}

export default {
	fetch(request, env) {
		clock = Number(request.headers.get('Clock'))
		return serve(request, env, () => clock)
	},
}
