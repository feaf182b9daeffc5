// SPDX-License-Identifier: Apache-2.0

package sql

import "strings"

// A Dialect is the SQL of one engine.
type Dialect int

// The dialects: PostgreSQL 9.5 or later, SQLite 3.24 or later.
const (
	PostgreSQL Dialect = iota + 1
	SQLite
)

// Statements are sent to a server. Their parameters: $1 the name, $2 the account, $3 the
// revision that it gets, $4 for how many microseconds it is kept, $5 the revision that it has.
type statements struct {
	schema []string
	load   string // one row, whatever there is: account, revision, time
	insert string // where there was nothing
	update string // where there was a revision
	list   string // some behind a name
}

// statements returns the statements of a table.
func (d Dialect) statements(schema, table string) statements {
	of, parameter := postgreSQL, "$"
	if d == SQLite {
		of, parameter = sqlite, "?" // to which $2 is the second name that it meets
	}
	full := `"` + table + `"`
	if schema != "" {
		full = `"` + schema + `".` + full
	}
	r := strings.NewReplacer("$", parameter, "TABLE_NAME", full, "INDEX_NAME", `"`+table+`_expires"`, "TRIGGER_NAME_forget", `"`+table+`_forget"`)
	s := statements{load: r.Replace(of.load), insert: r.Replace(of.insert), update: r.Replace(of.update), list: r.Replace(list)}
	for _, statement := range of.schema {
		s.schema = append(s.schema, r.Replace(statement))
	}
	return s
}

// An expiry is rounded up to the next minute. It is in an index, and a row whose indexed columns
// stay as they are is updated without touching an index: that is most charges of a hot key.
const rounded = ` / 60000000 * 60000000 + 60000000`

// A row that has expired is seen first, and removed when it expires again, an hour later: one
// moment of a clock that is ahead is not believed. One that was seen is told by its expiry, which is
// no whole minute.
const (
	isSeen  = `expires % 60000000 <> 0`
	notSeen = `expires % 60000000 = 0`
	anHour  = rounded + ` + 3600000001`
	some    = `LIMIT 4`
)

// An insert and an update may be run twice, which is done where a connection is taken for broken:
// a row that has our new revision is what we have made. And both go by the revision, not by
// whether a row has expired: one that has is gone, or it can be charged still.
const (
	conflict = ` ON CONFLICT (name) DO UPDATE SET revision = excluded.revision WHERE t.revision = excluded.revision`
	swap     = ` WHERE name = $1 AND revision IN ($5, $3)`
)

// A page of what there is, in order.
const list = `SELECT name, account FROM TABLE_NAME WHERE name > $1 ORDER BY name LIMIT 1000`

// The clock of loads runs on within a statement, which may have waited. The clock for expiry
// stands still, so that the index can serve it.
const (
	postgresClock = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	postgresStart = `(extract(epoch FROM statement_timestamp()) * 1000000)::bigint`
	postgresEnds  = `(` + postgresClock + ` + $4::bigint)` + rounded
)

var postgreSQL = statements{
	schema: []string{
		// Two that create one table at once would fail, also with IF NOT EXISTS.
		`SELECT pg_advisory_xact_lock(hashtext('tallystick'))`,
		`CREATE TABLE IF NOT EXISTS TABLE_NAME (name text COLLATE "C" PRIMARY KEY, account bytea NOT NULL, revision bigint NOT NULL, expires bigint NOT NULL) WITH (fillfactor = 70)`,
		`CREATE INDEX IF NOT EXISTS INDEX_NAME ON TABLE_NAME (expires)`,
	},
	load: `SELECT t.account, t.revision, ` + postgresClock + ` FROM (SELECT 1) AS one LEFT JOIN TABLE_NAME AS t ON t.name = $1`,
	// The expired that others remove, or charge, are skipped, not waited for. The outer
	// condition is for those that were charged since the inner one saw them.
	insert: `WITH expired AS (SELECT name, expires FROM TABLE_NAME WHERE expires < ` + postgresStart + ` AND name <> $1 ORDER BY expires ` + some + ` FOR UPDATE SKIP LOCKED), ` +
		`seen AS (UPDATE TABLE_NAME SET expires = ` + postgresStart + anHour + ` WHERE expires < ` + postgresStart + ` AND name IN (SELECT name FROM expired WHERE ` + notSeen + `)), ` +
		`gone AS (DELETE FROM TABLE_NAME WHERE expires < ` + postgresStart + ` AND name IN (SELECT name FROM expired WHERE ` + isSeen + `)) ` +
		`INSERT INTO TABLE_NAME AS t (name, account, revision, expires) VALUES ($1, $2, $3, ` + postgresEnds + `)` + conflict,
	update: `UPDATE TABLE_NAME SET account = $2, revision = $3, expires = ` + postgresEnds + swap,
}

const (
	sqliteClock = `CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000`
	sqliteEnds  = `(` + sqliteClock + ` + $4)` + rounded

	sqliteExpired = ` AND rowid IN (SELECT rowid FROM TABLE_NAME WHERE expires < ` + sqliteClock + ` ORDER BY expires ` + some + `)`
)

var sqlite = statements{
	schema: []string{
		`CREATE TABLE IF NOT EXISTS TABLE_NAME (name TEXT PRIMARY KEY, account BLOB NOT NULL, revision INTEGER NOT NULL, expires INTEGER NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS INDEX_NAME ON TABLE_NAME (expires)`,
		// A statement of SQLite changes one table once: a trigger is of the same transaction.
		`CREATE TRIGGER IF NOT EXISTS TRIGGER_NAME_forget AFTER INSERT ON TABLE_NAME BEGIN ` +
			`DELETE FROM TABLE_NAME WHERE ` + isSeen + sqliteExpired + `; ` +
			`UPDATE TABLE_NAME SET expires = ` + sqliteClock + anHour + ` WHERE ` + notSeen + sqliteExpired + `; END`,
	},
	load:   `SELECT t.account, t.revision, ` + sqliteClock + ` FROM (SELECT 1) AS one LEFT JOIN TABLE_NAME AS t ON t.name = $1`,
	insert: `INSERT INTO TABLE_NAME AS t (name, account, revision, expires) VALUES ($1, $2, $3, ` + sqliteEnds + `)` + conflict,
	update: `UPDATE TABLE_NAME SET account = $2, revision = $3, expires = ` + sqliteEnds + swap,
}
