// Where an object keeps its account: in its own SQLite. Each row is small, so that a charge
// writes little, however much there is. All of a request is one transaction, its owner's.

import { Back } from './back.js'
import { ID_LIFE, Line, Log } from './limits.js'

const TABLES = `
	CREATE TABLE IF NOT EXISTS account (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS charges (id TEXT, until INTEGER, cost INTEGER NOT NULL, PRIMARY KEY (id, until)) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS back (one INTEGER PRIMARY KEY CHECK (one = 1), bits BLOB NOT NULL);
	CREATE TABLE IF NOT EXISTS answers (id TEXT PRIMARY KEY, given INTEGER NOT NULL, at INTEGER NOT NULL, cost INTEGER NOT NULL, serial TEXT NOT NULL);
	CREATE INDEX IF NOT EXISTS given ON answers (given);`

export class Store {
	constructor(storage) { this.sql = storage.sql }

	all(query, ...values) { return this.sql.exec(query, ...values).toArray() }

	// write makes the tables before the first write: a key that is only looked at, or refused,
	// leaves nothing behind.
	write(query, ...values) {
		if (!this.made) this.sql.exec(TABLES)
		this.made = true
		this.sql.exec(query, ...values)
	}

	// load returns what an account is made of: nothing, if there is none.
	load() {
		this.changed = undefined
		this.made = this.all("SELECT name FROM sqlite_master WHERE name = 'account'").length > 0
		if (!this.made) return {}
		const state = JSON.parse(this.all('SELECT state FROM account')[0].state)
		state.entries = new Map(state.entries.map(([id, ends, s, logged, line]) => [id, {
			ends,
			state: s,
			log: logged ? new Log(this.all('SELECT until, cost FROM charges WHERE id = ? ORDER BY until', id).map((c) => [c.until, c.cost])) : undefined,
			line: line ? new Line(line.base, line.holes) : undefined,
		}]))
		state.back = Back.read(state.floor, new Uint8Array(this.all('SELECT bits FROM back')[0]?.bits ?? []))
		state.answers = new Map(this.all('SELECT id, given, at, cost, serial FROM answers ORDER BY given, rowid').map(({ id, ...a }) => [id, a]))
		return state
	}

	// save notes that an account has changed, for flush.
	save(account) { this.changed = account }

	// flush keeps what is no table of its own, once for all calls of a request.
	flush() {
		if (!this.changed) return
		const { latest, hold, serial, back, paused, seen, booked, since, entries } = this.changed
		this.changed = undefined
		this.write('DELETE FROM answers WHERE given <= ?', latest - ID_LIFE)
		const rows = [...entries].map(([id, e]) => [id, e.ends, e.state, e.log !== undefined, e.line])
		this.write('INSERT OR REPLACE INTO account VALUES (1, ?)', JSON.stringify({ latest, hold, serial, floor: back.floor, paused, seen, booked, since, entries: rows }))
	}

	// logged keeps what has changed in a log: how much ends when, and that is no more if 0.
	logged(id, dirty) {
		for (const [until, cost] of dirty) {
			if (cost === 0) this.write('DELETE FROM charges WHERE id = ? AND until = ?', id, until)
			else this.write('INSERT OR REPLACE INTO charges VALUES (?, ?, ?)', id, until, cost)
		}
	}

	dropped(id) { this.write('DELETE FROM charges WHERE id = ?', id) }

	gaveBack(back) { this.write('INSERT OR REPLACE INTO back VALUES (1, ?)', back.bytes()) }

	answered(id, { given, at, cost, serial }) {
		this.write('INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)', id, given, at, cost, serial)
	}

	// forget drops all that a clock that was wrong has charged.
	forget() { for (const table of ['charges', 'back', 'answers']) this.write(`DELETE FROM ${table}`) }
}
