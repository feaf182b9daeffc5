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

	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A server is a PostgreSQL of one test: a cluster of its own on a free port, run by somebody who
// is not root, as it demands.
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
	db, err := stdsql.Open("pgx", shared.dsn("postgres"))
	require.NoError(t, err)
	defer db.Close()
	name := "of_" + strings.ToLower(rand.Text())
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
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
			uid, err := strconv.ParseUint(u.Uid, 10, 32)
			require.NoError(t, err)
			gid, err := strconv.ParseUint(u.Gid, 10, 32)
			require.NoError(t, err)
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

// sqliteThatWaits returns one whose connections wait for a lock for so many milliseconds.
func sqliteThatWaits(dir string, busy int) engine {
	path := fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)", filepath.Join(dir, "counts.db"), busy)
	return engine{"sqlite", path, sql.SQLite}
}

// open opens a database of an engine, tapped, and a store in it.
func (e engine) open(t testing.TB) (sql.Store, *tap, *stdsql.DB) {
	t.Helper()
	p := new(tap)
	db, err := p.open(e.driver, e.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxIdleConns(16)
	store, err := sql.Open(db, sql.Config{Dialect: e.dialect})
	require.NoError(t, err)
	require.NoError(t, store.CreateSchema(t.Context()))
	p.loads.Store(0)
	p.swaps.Store(0)
	return store, p, db
}
