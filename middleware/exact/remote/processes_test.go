// SPDX-License-Identifier: Apache-2.0

//go:build unix

package remote_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/paced"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/storeless"
)

// The environment of a child process: what it does, and where.
const (
	envDoes  = "TALLYSTICK_REMOTE_DOES"
	envWhere = "TALLYSTICK_REMOTE_WHERE"
)

// A killable is an owner that is a process.
type killable interface {
	url() string
	start()
	kill()
	process() *os.Process
}

// A served is a process with a counter in its memory, which it serves.
type served struct {
	t      testing.TB
	listen string
	cmd    *exec.Cmd
}

func startServed(t testing.TB) *served {
	s := &served{t: t, listen: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func child(does, where string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestChild$")
	c.Env = append(os.Environ(), envDoes+"="+does, envWhere+"="+where)
	c.Stderr = os.Stderr
	return c
}

func (s *served) start() {
	s.t.Helper()
	s.cmd = child("serve", s.listen)
	out, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	_, err = s.cmd.StdinPipe() // it ends when that does
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
	s.listen, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(s.t, err, "it says where it listens")
	s.listen = strings.TrimSpace(s.listen)
}

func (s *served) url() string          { return "http://" + s.listen + "/" }
func (s *served) process() *os.Process { return s.cmd.Process }
func (s *served) kill()                { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() }

// freeze stops an owner, and waits until it has: the signal alone is not that.
func freeze(t testing.TB, owner killable) {
	t.Helper()
	require.NoError(t, owner.process().Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(owner.process().Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
}

func thaw(t testing.TB, owner killable) {
	t.Helper()
	require.NoError(t, owner.process().Signal(syscall.SIGCONT))
}

// TestChild is what a child process does. In a test run that is none it does nothing.
func TestChild(t *testing.T) {
	switch os.Getenv(envDoes) {
	case "serve":
		l, err := net.Listen("tcp", os.Getenv(envWhere))
		require.NoError(t, err)
		h, err := remote.Serve(exact.NewMemory(0, nil), secrets)
		require.NoError(t, err)
		fmt.Println(l.Addr())
		go func() { _ = http.Serve(l, h) }()
		_, _ = io.Copy(io.Discard, os.Stdin) // until whoever has started it is gone
	case "attempt":
		fmt.Println(attempts(t, os.Getenv(envWhere), 1250))
	}
}

// attempts makes so many of them on a hot key, and returns how many passed.
func attempts(t testing.TB, url string, n int) (passed int64) {
	c, err := remote.Open([]string{url}, secrets)
	require.NoError(t, err)
	defer c.Close()
	p := yearly(t, 1000)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 25 {
		wg.Go(func() {
			for range n / 25 {
				v, err := c.Take(context.Background(), exact.Call{Key: "hot", Cost: 1, Policy: p})
				if err != nil {
					t.Error(err)
					return
				}
				if v.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}

// yearly is a policy whose window no test sees end.
func yearly(t testing.TB, quota int64) *exact.Policy {
	return compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: 365 * 24 * time.Hour})
}

// processes runs a test with each owner as a process of its own. keeps says that its counts
// outlive it.
func processes(t *testing.T, test func(t *testing.T, owner killable, keeps bool)) {
	t.Run("Serve", func(t *testing.T) { test(t, startServed(t), false) })
	t.Run("the Durable Object", func(t *testing.T) { test(t, startWorkerd(t, shipped, t.TempDir()), true) })
}

// 1000 of 5000 attempts, by four processes, and none more when the owner was killed and is back
// with what it has in storage.
func TestFourProcessesPassExactlyTheQuota(t *testing.T) {
	processes(t, func(t *testing.T, owner killable, keeps bool) {
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				out, err := child("attempt", owner.url()).Output()
				n, wrong := strconv.ParseInt(strings.Fields(string(out) + " ?")[0], 10, 64)
				if err := errors.Join(err, wrong); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				passed.Add(n)
			})
		}
		wg.Wait()
		require.EqualValues(t, 1000, passed.Load())
		if !keeps {
			return
		}
		owner.kill()
		owner.start()
		require.Zero(t, attempts(t, owner.url(), 25))
	})
}

// An owner is killed amid a load: what was admitted stays counted, and an ID that was
// admitted before is known after. Nothing of it goes beyond the quota.
func TestKilledAmidALoad(t *testing.T) {
	owner := startWorkerd(t, shipped, t.TempDir())
	p := yearly(t, 300)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	c := open(t, secrets, owner.url())
	first, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: "first"})
	require.NoError(t, err)
	back := make(chan struct{})
	for n := range 20 {
		wg.Go(func() {
			for i := range 50 {
				if admitted.Load() > 100 {
					<-back // so that it is killed amid the load, and before the quota is spent
				}
				call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: fmt.Sprint(n, "-", i)}
				v, err := c.Take(t.Context(), call)
				for err != nil { // whether it was counted or not, the same ID finds out
					<-back
					v, err = c.Take(t.Context(), call)
				}
				if v.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return admitted.Load() > 50 }, patient, time.Millisecond)
	owner.kill()
	owner.start()
	close(back)
	wg.Wait()
	require.EqualValues(t, 299, admitted.Load())
	require.NoError(t, c.Refund(t.Context(), first.Receipt))
	v, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.True(t, v.Admitted, "one was given back")
}

// patient is when a test gives up on what is bound to come.
const patient = 5 * time.Minute

// A frozen owner is an outage of a deadline, and what it does when it goes on is done once.
func TestFrozenOwner(t *testing.T) {
	processes(t, func(t *testing.T, owner killable, _ bool) {
		c, p := open(t, secrets, owner.url()), yearly(t, 5)
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, err)
		freeze(t, owner)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: "frozen"}
		_, err = c.Take(ctx, call)
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
		thaw(t, owner)
		v, err := c.Take(t.Context(), call)
		require.NoError(t, err)
		require.True(t, v.Admitted)
		require.EqualValues(t, 3, v.Limits[0].Remaining)
	})
}

// The connection is cut in the middle of an answer, at each of its bytes in turn: the call is
// asked for again, and counted once.
func TestCutInTheMiddleOfAnAnswer(t *testing.T) {
	processes(t, func(t *testing.T, owner killable, _ bool) {
		cut := startCutter(t, strings.TrimSuffix(strings.TrimPrefix(owner.url(), "http://"), "/"))
		c, p := open(t, secrets, "http://"+cut.addr+"/"), yearly(t, 100)
		for n := range 40 {
			call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(n)}
			cut.after.Store(int64(1 + 10*n))
			_, err := c.Take(t.Context(), call)
			if err != nil { // of the first bytes, http.Transport has asked again itself
				require.ErrorIs(t, err, exact.ErrMaybeCounted)
			}
			cut.after.Store(0)
			v, err := c.Take(t.Context(), call)
			require.NoError(t, err)
			require.True(t, v.Admitted && v.Replayed)
			require.EqualValues(t, 99-n, v.Limits[0].Remaining)
		}
		require.Greater(t, cut.cuts.Load(), int64(20))
	})
}

// A cutter is a proxy that cuts a connection after so many bytes of answers.
type cutter struct {
	addr, to    string
	after, cuts atomic.Int64 // 0: it does not
}

func startCutter(t testing.TB, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{addr: l.Addr().String(), to: to}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if most := c.after.Load(); most > 0 && n > 0 {
			_, _ = client.Write(buf[:min(int64(n), most)])
			c.cuts.Add(1)
			return
		}
		if _, wrong := client.Write(buf[:n]); err != nil || wrong != nil {
			return
		}
	}
}

// The middleware in front does what it was told by name while its owner is away, whichever way
// that is, and is loud; the counter decides again when it is back.
func TestTheMiddlewareInFront(t *testing.T) {
	for what, fault := range map[string]struct{ begin, end func(testing.TB, killable) }{
		"killed": {func(_ testing.TB, o killable) { o.kill() }, func(_ testing.TB, o killable) { o.start() }},
		"frozen": {freeze, thaw},
	} {
		for outage, want := range map[middleware.Outage][]int{
			middleware.FailOpen:   {http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests},
			middleware.FailClosed: {http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
		} {
			t.Run(fmt.Sprintf("%s, %v", what, map[middleware.Outage]string{middleware.FailOpen: "FailOpen", middleware.FailClosed: "FailClosed"}[outage]), func(t *testing.T) {
				owner := startServed(t)
				var log bytes.Buffer
				m, err := middleware.New(middleware.Config{
					Policy:  "api",
					Limits:  []middleware.Limit{{Algorithm: storeless.FixedWindow, Quota: 3, Window: 365 * 24 * time.Hour}},
					Secrets: [][]byte{secret("s")},
					Exact:   &middleware.Exact{Counter: open(t, secrets, owner.url()), Outage: outage, Deadline: 300 * time.Millisecond},
					Logger:  slog.New(slog.NewTextHandler(&log, nil)),
				})
				require.NoError(t, err)
				handler := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				ask := func(addr string) *httptest.ResponseRecorder {
					for began := time.Now(); ; {
						r := httptest.NewRequest(http.MethodPost, "/", nil)
						r.RemoteAddr = addr + ":1"
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, r)
						// Where this process has no turns, deadlines are noticed late: that is load, and no outage.
						if load := w.Code == http.StatusServiceUnavailable && w.Header().Get("Tallystick-Degraded") == ""; !load || time.Since(began) > patient {
							return w
						}
					}
				}
				require.Equal(t, http.StatusOK, ask("192.0.2.1").Code)
				fault.begin(t, owner)
				for _, status := range want {
					w := ask("192.0.2.2")
					require.Equal(t, status, w.Code)
					require.Equal(t, "?1", w.Header().Get("Tallystick-Degraded"))
				}
				require.Regexp(t, "code=counter-(failed|down)", log.String(), "down at once where a second of calls was noticed late")
				fault.end(t, owner)
				n := 0
				require.Eventually(t, func() bool {
					n++
					w := ask(fmt.Sprintf("192.0.%d.%d", 3+n/250, 1+n%250))
					return w.Code == http.StatusOK && w.Header().Get("Tallystick-Degraded") == ""
				}, patient, 20*time.Millisecond, "it recovers by itself")
			})
		}
	}
}

// openPaced opens the counter of a process that paces its calls.
func openPaced(url string) (exact.Counter, error) { return remote.Open([]string{url}, secrets) }

func TestPacedChild(t *testing.T) { paced.Child(t, openPaced) }

// Real processes pace their calls through an owner: one that serves a counter, and a Durable
// Object.
func TestPaced(t *testing.T) {
	if testing.Short() {
		paced.Test(t, startServed(t).url(), openPaced)
		return
	}
	processes(t, func(t *testing.T, owner killable, _ bool) { paced.Test(t, owner.url(), openPaced) })
}
