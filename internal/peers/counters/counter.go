// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"slices"
	"time"
)

// A Counter is one that is measured, ours or another's.
type Counter struct {
	// Name is what it is called in tables.
	Name string

	// Redis says that Open wants a redis-server on this machine.
	Redis bool

	// Open opens it in a directory of its own. What it has stored there is found
	// again by the next Open.
	Open func(dir string) (*Opened, error)
}

// An Opened counter counts until it is closed. Many ask it at once.
type Opened struct {
	// Take counts one for a key, and reports whether it passes.
	Take func(key string) (bool, error)

	// First is what is called in place of Take for a key's first time, where the key
	// would not last otherwise. It may be nil.
	First func(key string) (bool, error)

	// Server is the server that the counter has started; nil: it has none.
	Server Server

	Close func() error
}

// A Server is another process that works for a counter.
type Server interface {
	// CPU is the processor time that it has used so far.
	CPU() (time.Duration, error)

	// Bytes is how much memory it has allocated.
	Bytes() (int64, error)
}

// All returns the counters in the order of the table. A new one is a line here.
// Without a PostgreSQL on this machine there are no rows for one.
func All() []Counter {
	all := []Counter{
		{Name: "memory", Open: openMemory},
		{Name: "file", Open: openFile},
		{Name: "bbolt", Open: openBbolt},
		{Name: "sqlite/grouped", Open: openSQLiteGrouped},
		{Name: "sqlite/full", Open: openSQLiteFull},
		{Name: "sql/sqlite", Open: openSQL},
		{Name: "sql/postgres", Open: openPostgres},
		{Name: "pgx", Open: openUpsert},
		{Name: "nats", Open: openNATS},
		{Name: "remote", Open: openRemote},
		{Name: "redis", Redis: true, Open: openRedis},
		{Name: "redis/ids", Redis: true, Open: openRedisIDs},
		{Name: "redis/leased", Redis: true, Open: openRedisLeased},
		{Name: "redis_rate", Redis: true, Open: openRedisRate},
		{Name: "ping/rueidis", Redis: true, Open: openPingRueidis},
		{Name: "ping/go-redis", Redis: true, Open: openPingGoRedis},
	}
	if postgresPrograms() == "" {
		all = slices.DeleteFunc(all, func(c Counter) bool { return c.Name == "sql/postgres" || c.Name == "pgx" })
	}
	return all
}
