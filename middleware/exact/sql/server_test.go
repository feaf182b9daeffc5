package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// patient is when a test gives up on what is bound to come: a busy machine may take long, and
// no test judges how long.
const patient = 5 * time.Minute

// A server is a PostgreSQL of one test: a cluster of its own on a free port, run by somebody who
// is not root, as it demands.
type server struct {
	t    testing.TB
	bin  string
	dir  string
	port int
	as   *syscall.SysProcAttr
	cmd  *exec.Cmd
}

func startServer(t testing.TB) *server {
	t.Helper()
	bin := programs()
	if bin == "" {
		testkit.Unable(t, "there is no PostgreSQL (Debian: apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "tallystick-postgres-") // not t.TempDir, which others cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, bin: bin, dir: dir, port: l.Addr().(*net.TCPAddr).Port}
	require.NoError(t, l.Close())
	if os.Getuid() == 0 {
		s.as = &syscall.SysProcAttr{Credential: nobody(t)}
		require.NoError(t, os.Chown(dir, int(s.as.Credential.Uid), int(s.as.Credential.Gid)))
	}
	made := s.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "tallystick", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	out, err := made.CombinedOutput()
	require.NoError(t, err, string(out))
	s.start()
	t.Cleanup(s.kill)
	return s
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
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.SysProcAttr, c.Env = s.dir, s.as, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	return c
}

// start starts it, until it answers: after a kill, its children must have noticed first.
func (s *server) start() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.cmd = s.command("postgres", "-D", "data", "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories="+s.dir, "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "logging_collector=off")
		require.NoError(s.t, s.cmd.Start())
		ended := make(chan struct{})
		go func() { _ = s.cmd.Wait(); close(ended) }()
		for {
			select {
			case <-ended:
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
	}, patient, 50*time.Millisecond, "it answers")
}

func (s *server) ping(ctx context.Context) error {
	db, err := sql.Open("pgx", dsn(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// dsn names a server, or the proxy before one.
func dsn(port int) string {
	return fmt.Sprintf("postgres://tallystick@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// kill ends it as a crash does: its process, and those that it has made.
func (s *server) kill() {
	children := s.children()
	_ = s.cmd.Process.Kill()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	require.Eventually(s.t, func() bool { return s.cmd.Process.Signal(syscall.Signal(0)) != nil }, patient, time.Millisecond)
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
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(s.t, err)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …", and the name may hold anything.
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == pid {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(s.t, err)
			pids = append(pids, child)
		}
	}
	return pids
}
