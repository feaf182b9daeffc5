// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	stdsql "database/sql"
	"encoding/binary"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite" // the driver

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/storeless"
)

// A take counts one for a key, and reports whether it passes. Many ask at once.
type take func(key string) (bool, error)

// A counter is an engine at work.
type counter struct {
	opening
	server *redisServer // that it has started; nil: none
	first  take         // in its place for a key's first time, where the key would not last; nil: the same
}

// engines are the rows of the table of counters. What one has stored in a directory is found again
// by the next that is opened there.
var engines = []struct {
	name string
	open func(c *counter, dir string) take
}{
	{"memory", func(*counter, string) take { return counting(memory.New(0, nil), nil) }},
	{"file", openFile},
	{"bbolt", openBbolt},
	{"sqlite/grouped", func(c *counter, dir string) take { return grouped(c, openSQLite(c, dir)) }},
	{"sqlite/full", func(c *counter, dir string) take { return upsert(openSQLite(c, dir)) }},
	{"sql/sqlite", func(c *counter, dir string) take { return onSQL(openSQLite(c, dir), sql.SQLite) }},
	{"sql/postgres", func(c *counter, _ string) take { return onSQL(startPostgres(&c.opening), sql.PostgreSQL) }},
	{"pgx", func(c *counter, _ string) take { return upsert(startPostgres(&c.opening)) }},
	{"nats", openNATS},
	{"remote", openRemote},
	{"redis", func(c *counter, _ string) take { return counting(openRedis(c), nil) }},
	{"redis/ids", openRedisIDs},
	{"redis/leased", openRedisLeased},
	{"redis_rate", openRedisRate},
	{"ping/rueidis", openPingRueidis}, // the client that exact/redis has
	{"ping/go-redis", openPingGoRedis},
}

// most is everybody's quota, in an hour.
const most = storeless.MaxQuota

// counting asks a counter of ours, with an ID for each call if there are any.
func counting(of exact.Counter, id func() string) take {
	p := must(exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: most, Window: time.Hour}}))
	return func(key string) (bool, error) {
		call := exact.Call{Key: key, Cost: 1, Policy: p}
		if id != nil {
			call.ID = id()
		}
		v, err := of.Take(context.Background(), call)
		return v.Admitted, err
	}
}

func openFile(c *counter, dir string) take {
	f := must(file.Open(filepath.Join(dir, "counts"), file.Config{}))
	c.closing(f.Close)
	return counting(f, nil)
}

// openBbolt writes by [bolt.DB.Batch], with a delay of about one write: the 10 ms that it waits for
// company as it comes would be all that a row shows.
func openBbolt(c *counter, dir string) take {
	db := must(bolt.Open(filepath.Join(dir, "counts"), 0o600, nil))
	c.closing(db.Close)
	db.MaxBatchDelay = 200 * time.Microsecond
	bucket := []byte("counts")
	check(db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucketIfNotExists(bucket); return err }))
	return func(key string) (passed bool, err error) {
		err = db.Batch(func(tx *bolt.Tx) error {
			counts, window, n := tx.Bucket(bucket), uint64(time.Now().Unix()/3600), uint64(0)
			if v := counts.Get([]byte(key)); len(v) == 16 && binary.BigEndian.Uint64(v) == window {
				n = binary.BigEndian.Uint64(v[8:])
			}
			if passed = n < most; !passed {
				return nil
			}
			return counts.Put([]byte(key), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, window), n+1))
		})
		return passed, err
	}
}

// openSQLite opens a log that is on disk after each commit, as in the others. It has one writer;
// more connections only wait for its lock.
func openSQLite(c *counter, dir string) *stdsql.DB {
	db := must(stdsql.Open("sqlite", "file:"+filepath.Join(dir, "counts")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate"))
	c.closing(db.Close)
	db.SetMaxOpenConns(1)
	return db
}

// upsert is what one writes by hand, one fixed window: it changes no row where the quota is used up.
func upsert(db *stdsql.DB) take { return counted(prepared(db)) }

func prepared(db *stdsql.DB) *stdsql.Stmt {
	must(db.Exec(`CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, win BIGINT NOT NULL, n BIGINT NOT NULL)`))
	return must(db.Prepare(`INSERT INTO counts VALUES ($1, $2, 1) ON CONFLICT (key) DO UPDATE
		SET n = CASE WHEN counts.win = $2 THEN counts.n + 1 ELSE 1 END, win = $2 WHERE counts.win <> $2 OR counts.n < $3`))
}

func counted(stmt *stdsql.Stmt) take {
	return func(key string) (bool, error) {
		r, err := stmt.Exec(key, time.Now().Unix()/3600, int64(most))
		if err != nil {
			return false, err
		}
		n, err := r.RowsAffected()
		return n == 1, err
	}
}

// grouped has one goroutine that writes, and a transaction for all calls that wait for it: the group
// commit of exact/file.
func grouped(c *counter, db *stdsql.DB) take {
	type job struct {
		key    string
		passed bool
		done   chan error
	}
	stmt, waiting := prepared(db), make(chan *job, 1024)
	commit := func(jobs []*job) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		take := counted(tx.Stmt(stmt))
		for _, j := range jobs {
			if j.passed, err = take(j.key); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	go func() {
		for j := range waiting {
			runtime.Gosched() // those who were answered just now may ask again
			jobs := []*job{j}
			for range len(waiting) {
				jobs = append(jobs, <-waiting)
			}
			err := commit(jobs)
			for _, j := range jobs {
				j.done <- err
			}
		}
	}()
	c.closing(func() error { close(waiting); return nil })
	return func(key string) (bool, error) {
		j := &job{key: key, done: make(chan error, 1)}
		waiting <- j
		err := <-j.done
		return j.passed, err
	}
}

// onSQL is package sql, as it is delivered: with its accounts, and for several processes.
func onSQL(db *stdsql.DB, dialect sql.Dialect) take {
	store := must(sql.Open(db, sql.Config{Dialect: dialect}))
	check(store.CreateSchema(context.Background()))
	return counting(must(cas.New(store, cas.Config{})), nil)
}

// openNATS is a bucket of JetStream in a file, of one replica, that the disk has when the server
// finds the time: every two minutes. The server runs in this process, as that of remote does.
func openNATS(c *counter, dir string) take {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}))
	s.Start()
	c.closing(func() error { s.Shutdown(); s.WaitForShutdown(); return nil })
	if !s.ReadyForConnections(time.Minute) {
		check(errors.New("nats-server does not answer"))
	}
	conn := must(natsgo.Connect(s.ClientURL()))
	c.closing(func() error { conn.Close(); return nil })
	store := must(nats.Open(context.Background(), must(jetstream.New(conn)), nats.Config{}))
	return counting(must(cas.New(store, cas.Config{})), nil)
}

// openRemote is a counter in memory, by HTTP over loopback.
func openRemote(c *counter, _ string) take {
	cfg := remote.Config{Secrets: [][]byte{secret()}}
	s := httptest.NewServer(must(remote.Serve(memory.New(0, nil), cfg)))
	c.closing(func() error { s.Close(); return nil })
	of := must(remote.Open([]string{s.URL + "/"}, cfg))
	c.closing(of.Close)
	return counting(of, nil)
}

func openRedis(c *counter) engine.ArchiveCloser {
	c.server = startRedis(&c.opening)
	of := must(redis.Open("redis://"+c.server.addr+"/0", redis.Config{}))
	c.closing(of.Close)
	return of
}

// openRedisIDs gives each call an ID of its own, as the middleware does: the answer to a call that
// is asked once more is kept.
func openRedisIDs(c *counter, _ string) take {
	last := new(atomic.Uint64)
	return counting(openRedis(c), func() string { return "0123456789abcdef" + strconv.FormatUint(last.Add(1), 36) })
}

func openRedisLeased(c *counter, _ string) take {
	l := must(lease.New(openRedis(c), lease.Config{}))
	c.closing(l.Close)
	return counting(l, nil)
}

// pool is a client as redis_rate's users have one: of a connection a call.
func pool(c *counter) *goredis.Client {
	c.server = startRedis(&c.opening)
	client := goredis.NewClient(&goredis.Options{Addr: c.server.addr, MaxRetries: -1, PoolSize: 16})
	c.closing(client.Close)
	return client
}

// openRedisRate takes an hour's worth for a key's first time: redis_rate lets a key expire when it
// has nothing to remember, which with a quota that is far away is after a second.
func openRedisRate(c *counter, _ string) take {
	limiter, limit := redis_rate.NewLimiter(pool(c)), redis_rate.Limit{Rate: 1 << 20, Period: time.Hour, Burst: most}
	some := func(n int) take {
		return func(key string) (bool, error) {
			r, err := limiter.AllowN(context.Background(), key, limit, n)
			return err == nil && r.Allowed == n, err
		}
	}
	c.first = some(limit.Rate)
	return some(1)
}

// A ping is what a round trip to a server costs that does nothing.
func openPingGoRedis(c *counter, _ string) take {
	client := pool(c)
	return func(string) (bool, error) { return true, client.Ping(context.Background()).Err() }
}

func openPingRueidis(c *counter, _ string) take {
	c.server = startRedis(&c.opening)
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.server.addr}, DisableCache: true, AlwaysPipelining: true}))
	c.closing(func() error { client.Close(); return nil })
	return func(string) (bool, error) {
		return true, client.Do(context.Background(), client.B().Ping().Build()).Error()
	}
}
