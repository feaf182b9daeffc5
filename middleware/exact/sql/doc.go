// SPDX-License-Identifier: Apache-2.0

// Package sql keeps exact counts in a table of PostgreSQL, for any number of processes and
// machines that have it already, or of SQLite, for the processes of one machine:
//
//	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
//	err = store.CreateSchema(ctx) // once, or by your own migrations
//	counter, err := cas.New(store, cas.Config{})
//
// It is a [cas.TimedStore]: package middleware/exact/cas has what a call costs and what races
// do; the clock is the server's. It imports no driver, and db stays the caller's: any driver
// of database/sql does that sends a statement once.
//
// # What a call costs
//
// An admitted call is two round trips, a refusal one, each a statement that is a transaction of
// its own. (A driver takes one more where it prepares a statement, or looks whether a connection
// that was idle is alive.) So no lock outlives a statement: an instance that is frozen, or cut off,
// between the two holds nobody up, which SELECT … FOR UPDATE would. A refusal takes no lock and
// writes nothing. What is answered was committed: with synchronous_commit off, or an
// asynchronous standby that takes over, the last charges may be given back.
//
// Any isolation level will do: what the server could not serialize is a race that was lost, and
// is run again.
//
// Behind a pooler that gives each transaction another connection, as PgBouncer with pool_mode =
// transaction, a driver must keep no prepared statements: pgx keeps none with
// default_query_exec_mode=exec, cache_describe or simple_protocol in the connection string; describe_exec
// is not safe there. With its default, cache_statement, calls fail with an error that says so, and are
// not counted. That is of PgBouncer 1.18; from 1.21 on it follows prepared statements itself where
// max_prepared_statements is not 0, by its own documentation.
//
// # The table
//
// One row is one key: a hash for its name, some 50 bytes and more for the account, see
// an Account of package engine, a revision, and from when on it may go, in microseconds of Unix time. Each
// new row looks at four that have expired, by the index and in the same statement, and removes
// those that were seen an hour before: one moment of a clock that is ahead is not believed. There
// is no goroutine, and no job to run. What CreateSchema makes in PostgreSQL is
//
//	CREATE TABLE tallystick (
//		name     text COLLATE "C" PRIMARY KEY,
//		account  bytea  NOT NULL,
//		revision bigint NOT NULL,
//		expires  bigint NOT NULL
//	) WITH (fillfactor = 70);
//	CREATE INDEX tallystick_expires ON tallystick (expires);
//
// # SQLite
//
// The file should be in WAL mode, and connections need a busy_timeout, below the deadline of a
// call: without one, two who write at once lose their race, and pause, more often than they need.
// A call that finds the file locked until then has lost a race. The file must be on a local disk.
// With "synchronous" at NORMAL a power cut gives back the last charges.
package sql
