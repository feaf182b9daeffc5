// SPDX-License-Identifier: Apache-2.0

// Package sql keeps exact counts in a table of PostgreSQL, for any number of processes and
// machines that have it already, or of SQLite, for the processes of one machine:
//
//	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
//	err = store.CreateSchema(ctx) // once, or by your own migrations
//	counter, err := cas.New(store, cas.Config{})
//
// It is a [cas.TimedStore]: package middleware/exact/cas tells the cost of calls and races;
// the clock is the server's. It imports no driver, and db stays the caller's. Any driver of
// database/sql will do that sends a statement once.
//
// # What a call costs
//
// An admitted call is two round trips, a refusal one, each a statement that is a transaction of its
// own. (A driver takes one more where it prepares a statement, or looks whether a connection that
// was idle is alive.) So no lock outlives a statement: an instance that freezes between the two
// blocks no other, as SELECT … FOR UPDATE would. A refusal takes no lock and writes nothing. An
// answer follows its commit. With synchronous_commit off, or when an asynchronous standby takes
// over, the last charges may be lost.
//
// Any isolation level will do: a serialization failure is a lost race, and is retried.
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
// One row is one key: a hash for its name, at least 50 bytes for the account (see Account of package
// engine), a revision, and its expiry in microseconds of Unix time. Each new row looks at four expired
// ones, by the index and in the same statement, and deletes those seen an hour before, in case the clock
// was ahead for a moment. There is no goroutine, and no job to run. What CreateSchema makes in PostgreSQL
// is
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
// call: without one, two writers lose races, and pause, more often than needed. A call that finds
// the file locked until then has lost a race. The file must be on a local disk. With
// "synchronous" at NORMAL a power cut loses the last charges.
package sql
