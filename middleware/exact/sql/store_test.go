// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"crypto/rand"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, _ := e.open(t)
		require.NoError(t, castest.TestStore(store, 1<<20))
	})
}

// By the server's clock, and by one that the test turns.
func TestCounter(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		clock := exacttest.NewClock()
		for _, s := range []*exacttest.Suite{
			{Open: func() (exact.Counter, error) { return cas.New(store, cas.Config{}) }},
			{Open: func() (exact.Counter, error) { return cas.New(store, cas.Config{Now: clock.Now}) }, Clock: clock},
		} {
			s.LoseAnswer = func(exact.Counter) { tap.lose.Store(true) }
			require.NoError(t, s.Test())
		}
	})
}

// An admitted call is two statements, a refusal and a look are one.
func TestRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, p := exactkit.Count(t, store), exactkit.PerYear(t, 2)
		for n, want := range [][]int64{{1, 1}, {2, 2}, {3, 2}} {
			exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
			require.Equal(t, want, []int64{tap.loads.Load(), tap.swaps.Load()}, n)
		}
		exactkit.Peek(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.Equal(t, []int64{4, 2}, []int64{tap.loads.Load(), tap.swaps.Load()})
	})
}

// Many callers of a hot key travel together.
func TestHotKeyIsMerged(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1000)}
		admitted := exactkit.Admitted(t, 128, 10, func(int, int) (exact.Counter, exact.Call) { return c, call })
		require.EqualValues(t, 1000, admitted)
		// How many depends on how fast the server is beside 128 callers: 20 to 850 were seen.
		require.Less(t, tap.swaps.Load(), admitted, "each has gone by itself")
	})
}

// A refusal waits for no lock, and takes none: another may hold the row, and may have it.
func TestARefusalTakesNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1)}
		exactkit.Take(t, c, call)
		tx := kit.Must(db.BeginTx(t.Context(), nil))(t)
		kit.Must(tx.ExecContext(t.Context(), "UPDATE tallystick SET expires = expires"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that waits does without end
		defer cancel()
		v := kit.Must(c.Take(ctx, call))(t)
		require.False(t, v.Admitted)
		require.NoError(t, tx.Rollback())
	})
}

// The clock is the server's: time that passes here, in a program whose clock is off by a day, is
// nothing to it.
func TestTheServersClockCounts(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		began := time.Now().Truncate(time.Millisecond)
		_, revision, now, err := store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.Empty(t, revision)
		require.False(t, now.Before(began), "a server of this machine")
		require.False(t, now.After(time.Now().Add(time.Millisecond)))

		v := kit.Must(exactkit.Count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}))(t)
		_, _, after, err := store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.False(t, v.Receipt.At.Before(now))
		require.False(t, v.Receipt.At.After(after))

		// Of a row as well: it goes a minute, rounded up, after it counts.
		var expires int64
		require.NoError(t, store.Swap(t.Context(), "n", "", []byte("v"), time.Hour))
		_, _, after, err = store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT expires FROM tallystick WHERE name = 'n'").Scan(&expires))
		at := time.UnixMicro(expires)
		require.Equal(t, at.Truncate(time.Minute), at, "so that the index seldom changes")
		require.True(t, at.After(now.Add(time.Hour)))
		require.False(t, at.After(after.Add(time.Hour+2*time.Minute)))
	})
}

// New rows take the place of those that have expired, so that a table of keys that come and go
// does not grow; those that count stay, and so does what is charged anew. A row goes when it was
// seen to have expired an hour before: one moment of a clock that is ahead removes none.
func TestExpiredRowsGo(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		names := func() (n int) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM tallystick").Scan(&n))
			return n
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.NoError(t, store.Swap(t.Context(), name, "", []byte("old"), time.Hour))
		}
		_, err := db.ExecContext(t.Context(), "UPDATE tallystick SET expires = 60000000 WHERE name <> 'e'")
		require.NoError(t, err)
		for _, name := range []string{"x", "y"} {
			require.NoError(t, store.Swap(t.Context(), name, "", []byte("new"), time.Hour))
		}
		require.Equal(t, 7, names(), "one moment")
		var least int64
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT min(expires) FROM tallystick").Scan(&least))
		require.Greater(t, time.Until(time.UnixMicro(least)), 59*time.Minute)
		kit.Must(db.ExecContext(t.Context(), "DELETE FROM tallystick WHERE name IN ('x', 'y')"))(t)
		_, err = db.ExecContext(t.Context(), "UPDATE tallystick SET expires = 60000000 + expires % 60000000 WHERE name <> 'e'") // an hour passes
		require.NoError(t, err)
		kit.Must(db.ExecContext(t.Context(), "UPDATE tallystick SET expires = expires + 60000000 WHERE name = 'd'"))(t)
		_, revision, err := store.Load(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, store.Swap(t.Context(), "a", revision, []byte("charged"), time.Hour))
		require.Equal(t, 5, names(), "to charge a key that is there removes nothing")
		_, gone, err := store.Load(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, store.Swap(t.Context(), "f", "", []byte("new"), time.Hour))
		require.Equal(t, 3, names(), "three have gone, one has come")
		require.NoError(t, store.Swap(t.Context(), "g", "", []byte("new"), time.Hour))
		require.Equal(t, 4, names())
		for _, name := range []string{"a", "e", "f", "g"} {
			value, _, err := store.Load(t.Context(), name)
			require.NoError(t, err)
			require.NotEmpty(t, value, name)
		}
		require.ErrorIs(t, store.Swap(t.Context(), "b", gone, []byte("late"), time.Hour), cas.ErrChanged, "of a caller that has read it before")
		require.Equal(t, 4, names())
	})
}

// What removes them goes by the index, however many rows there are.
func TestExpiryGoesByTheIndex(t *testing.T) {
	e := engine{"pgx", database(t), sql.PostgreSQL}
	_, _, db := e.open(t)
	_, err := db.ExecContext(t.Context(), "INSERT INTO tallystick SELECT md5(n::text), 'a', n, 4102444800000000 + n FROM generate_series(1, 20000) AS n")
	require.NoError(t, err)
	kit.Must(db.ExecContext(t.Context(), "ANALYZE tallystick"))(t)
	rows := kit.Must(db.QueryContext(t.Context(), "EXPLAIN "+sql.Insert(sql.PostgreSQL), "n", []byte("v"), int64(1), int64(1)))(t)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan = append(plan, line)
	}
	require.NoError(t, rows.Err())
	all := strings.Join(plan, "\n")
	require.Contains(t, all, "Index Cond: (expires <")
	require.NotContains(t, all, "Seq Scan", all)
}

// A driver that runs a statement again, because its connection looked broken, does not lose its
// race against itself: that would charge the call twice.
func TestAStatementThatIsRunTwiceCountsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, p := exactkit.Count(t, store), exactkit.PerYear(t, 5)
		for n := range int64(3) { // the first inserts
			tap.broken.Store(true)
			require.Equal(t, 4-n, exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p}).Limits[0].Remaining)
			require.False(t, tap.broken.Load())
		}
		require.EqualValues(t, 6, tap.swaps.Load())
	})
}

// Revisions are not numbered by a process, whose numbers come again in a copy of it.
func TestRevisionsAreDrawn(t *testing.T) {
	seen := make(map[int64]bool)
	for range 1000 {
		n := sql.NewRevision()
		require.False(t, seen[n] || n < 0)
		seen[n] = true
	}
}

// A server is a PostgreSQL of one test: a cluster of its own on a free port, run by a user other
// than root, as it demands.
type server struct {
	t    testing.TB
	bin  string
	dir  string
	port string
	as   *syscall.SysProcAttr
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended

	watch *exec.Cmd // ends cmd where this process does not: it panics, or is killed
}

// shared is the server of tests that do nothing to it, each in a database of its own.
var shared *server

// database returns an empty database of the shared server.
func database(t testing.TB) (dsn string) {
	t.Helper()
	if shared == nil {
		shared = newServer(t)
	}
	db := kit.Must(stdsql.Open("pgx", shared.dsn("postgres")))(t)
	defer db.Close()
	name := "of_" + strings.ToLower(rand.Text())
	kit.Must(db.ExecContext(t.Context(), "CREATE DATABASE "+name))(t)
	return shared.dsn(name)
}

// startServer starts a server of one test.
func startServer(t testing.TB) *server {
	t.Helper()
	s := newServer(t)
	t.Cleanup(s.end)
	return s
}

func newServer(t testing.TB) *server {
	t.Helper()
	bin := programs()
	if bin == "" {
		kit.Unable(t, "there is no PostgreSQL (Debian: apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "tallystick-postgres-") // not t.TempDir, which others cannot enter
	require.NoError(t, err)
	s := &server{t: t, bin: bin, dir: dir, port: kit.FreePort(t)}
	if os.Getuid() == 0 {
		s.as = &syscall.SysProcAttr{Credential: nobody(t)}
		require.NoError(t, os.Chown(dir, int(s.as.Credential.Uid), int(s.as.Credential.Gid)))
	}
	made := s.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "tallystick", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	out, err := made.CombinedOutput()
	require.NoError(t, err, string(out))
	s.start()
	return s
}

// end ends it, and removes what it has written.
func (s *server) end() {
	s.kill()
	for range 1000 { // its children may be at their last file
		if os.RemoveAll(s.dir) == nil {
			return
		}
	}
}

// programs returns where the programs of the newest PostgreSQL are, or "".
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

func nobody(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid := kit.Must(strconv.ParseUint(u.Uid, 10, 32))(t)
			gid := kit.Must(strconv.ParseUint(u.Gid, 10, 32))(t)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Fatal("there is no user but root")
	return nil
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.bin, name)
	}
	c := exec.Command(name, args...)
	c.Dir, c.SysProcAttr, c.Env = s.dir, s.as, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	return c
}

// start starts it, until it answers: after a kill, its children must have noticed first.
func (s *server) start() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.cmd = s.command("postgres", "-D", "data", "-p", s.port, "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories="+s.dir, "-c", "fsync=off", "-c", "shared_buffers=16MB")
		require.NoError(s.t, s.cmd.Start())
		s.watched()
		gone := make(chan struct{})
		go func() { _ = s.cmd.Wait(); close(gone) }()
		s.gone = gone
		for {
			select {
			case <-gone:
				return false
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err := s.ping(ctx)
			cancel()
			if err == nil {
				return true
			}
		}
	}, exactkit.Patient, 50*time.Millisecond, "it answers")
}

// watched starts what reads from this process until there is nothing more to read from.
func (s *server) watched() {
	s.unwatched()
	s.watch = s.command("/bin/sh", "-c", `cat; kill -QUIT "$0"; sleep 2; rm -rf "$1"`, strconv.Itoa(s.cmd.Process.Pid), s.dir)
	_, err := s.watch.StdinPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.watch.Start())
}

func (s *server) unwatched() {
	if s.watch != nil {
		_ = s.watch.Process.Kill()
		_ = s.watch.Wait()
		s.watch = nil
	}
}

func (s *server) ping(ctx context.Context) error {
	db, err := stdsql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

func (s *server) dsn(name string) string { return dsn(s.addr(), name) }

// dsn names a database of the server at an address, or of one behind a proxy.
func dsn(addr, name string) string {
	return "postgres://tallystick@" + addr + "/" + name + "?sslmode=disable"
}

// kill ends it as a crash does: its process, and those that it has made.
func (s *server) kill() {
	s.unwatched()
	children := s.children()
	_ = s.cmd.Process.Kill()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.gone
}

// freeze stops it and all that it has made; thaw has them go on.
func (s *server) freeze() { s.signal(syscall.SIGSTOP) }
func (s *server) thaw()   { s.signal(syscall.SIGCONT) }

func (s *server) signal(sig syscall.Signal) {
	require.NoError(s.t, s.cmd.Process.Signal(sig))
	for _, pid := range s.children() {
		_ = syscall.Kill(pid, sig) // it may have ended meanwhile
	}
}

func (s *server) children() (pids []int) {
	pid := strconv.Itoa(s.cmd.Process.Pid)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …", and the name may hold anything.
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == pid {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// A tap is a driver between a store and its own: it counts statements, and does to answers what
// a network does.
type tap struct {
	real driver.Driver
	name string

	loads, swaps atomic.Int64
	lose         atomic.Bool // the answer of the next swap
	broken       atomic.Bool // likewise, by the error that has the statement run again
}

// open opens a database of any driver through a tap.
func (p *tap) open(driverName, name string) (*stdsql.DB, error) {
	db, err := stdsql.Open(driverName, name)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	p.real, p.name = db.Driver(), name
	return stdsql.OpenDB(p), nil
}

// Driver implements [driver.Connector].
func (p *tap) Driver() driver.Driver { return p.real }

// Connect implements [driver.Connector].
func (p *tap) Connect(context.Context) (driver.Conn, error) {
	c, err := p.real.Open(p.name)
	if err != nil {
		return nil, err
	}
	return &tapped{c, p}, nil
}

type tapped struct {
	driver.Conn
	tap *tap
}

func (c *tapped) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.tap.loads.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *tapped) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.tap.swaps.Add(1)
	done, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	switch {
	case err == nil && c.tap.lose.CompareAndSwap(true, false):
		return nil, errors.New("the connection was cut")
	case err == nil && c.tap.broken.CompareAndSwap(true, false):
		return nil, driver.ErrBadConn
	}
	return done, err
}

func (c *tapped) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

// An engine is one of the two, with an empty database.
type engine struct {
	driver  string
	dsn     string
	dialect sql.Dialect
}

// onEach runs a test on both engines, at the same time.
func onEach(t *testing.T, test func(t *testing.T, e engine)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		e := engine{"pgx", database(t), sql.PostgreSQL}
		t.Parallel()
		test(t, e)
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteIn(t.TempDir()))
	})
}

func sqliteIn(dir string) engine { return sqliteThatWaits(dir, 5000) }

// sqliteThatWaits returns one whose connections wait for a lock for busy milliseconds.
func sqliteThatWaits(dir string, busy int) engine {
	path := fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)", filepath.Join(dir, "counts.db"), busy)
	return engine{"sqlite", path, sql.SQLite}
}

// open opens a database of an engine, tapped, and a store in it.
func (e engine) open(t testing.TB) (sql.Store, *tap, *stdsql.DB) {
	t.Helper()
	p := new(tap)
	db := kit.Must(p.open(e.driver, e.dsn))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxIdleConns(16)
	store := kit.Must(sql.Open(db, sql.Config{Dialect: e.dialect}))(t)
	require.NoError(t, store.CreateSchema(t.Context()))
	p.loads.Store(0)
	p.swaps.Store(0)
	return store, p, db
}
