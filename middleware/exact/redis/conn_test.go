// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// Calls that are on their way when a counter closes may be counted.
func TestCloseLeavesItOpenWhatWasCounted(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	c := open(t, throughProxy(p))
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}
	exactkit.Peek(t, c, call)
	p.Set(exactkit.Ways{Swallow: true})
	done := make(chan error, 1)
	go func() {
		_, err := c.Take(context.Background(), call)
		done <- err
	}()
	require.Eventually(t, func() bool { return p.Lost.Load() > 0 }, patient, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	require.ErrorIs(t, <-done, exact.ErrMaybeCounted)
	require.NoError(t, <-closed)
	_, err := c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrNotCounted)
}

// Whose context ends while a counter connects waits no longer.
func TestConnectingKeepsDeadlines(t *testing.T) {
	s := startServer(t)
	s.Freeze()
	defer s.Thaw()
	c := unconnected(t, s.url())
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A server does not count a call after its deadline, and says so.
func TestStaleCallsAreNotCounted(t *testing.T) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 1000)
	taken := int64(0)
	sentInTime(t, func() []error {
		for range 3 { // it learns the server's time
			exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
			taken++
		}
		s.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		errs := make([]error, 100)
		kit.Together(len(errs), func(n int) {
			_, errs[n] = c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
		})
		s.Thaw()
		connected(t, c) // where it froze for a second, the client has given the connections up
		return errs
	})
	require.EqualValues(t, 1000-taken, exactkit.Left(t, c, exact.Call{Key: "k", Cost: 1, Policy: p}))
	// The calls before it on the same connection have been answered.
	require.Equal(t, ":1", s.do("DBSIZE"), "only the key of before is there")
}

// A server whose clock is set refuses no call: a call that it takes for stale is retried.
func TestServerClockMayBeSet(t *testing.T) {
	s := startServer(t)
	c := s.byKey(redis.Config{})
	p := exactkit.PerYear(t, 1000)
	for n, second := range []int64{2000000000, 2000003600, 2000000000, 2000003600} {
		s.at(time.Unix(second, 0))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			cancel()
			require.NoError(t, err, second)
		}
		require.EqualValues(t, 997, exactkit.Left(t, c, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p}), "each is counted once")
	}
}

// The start of a program reports that the server is away, not the first request.
func TestAServerThatIsAwayIsTold(t *testing.T) {
	var log bytes.Buffer
	c := kit.Must(redis.Open("redis://user:the-password@127.0.0.1:"+kit.FreePort(t), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	require.True(t, c.(*redis.Counter).Tried())
	require.NoError(t, c.Close())
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "code=redis-away error=")
	require.Contains(t, log.String(), "connection refused")
	require.NotContains(t, log.String(), "the-password")
}

// One that is there has a connection before the first call, and there is nothing to tell.
func TestAServerIsConnectedToAhead(t *testing.T) {
	s := startServer(t)
	var log bytes.Buffer
	c := kit.Must(redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	require.True(t, c.(*redis.Counter).Tried())
	require.Greater(t, strings.Count(s.do("CLIENT", "LIST"), "\n"), 1, "the test's own, and another")
	require.NoError(t, c.Close())
	require.Empty(t, log.String())
}

// What befalls a server, or the way to it, in the middle of a load, and passes.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes most of a minute")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	all := append(exactkit.OfAServer(p, s.Kill, s.Start, s.Freeze, s.Thaw),
		exactkit.Fault{Name: "slow", Strike: func() { p.Set(exactkit.Ways{Delay: 4 * deadline}) }, Heal: func() { p.Set(exactkit.Ways{}); p.Cut() }},
		exactkit.Fault{Name: "memory full", Strike: func() { s.do("CONFIG", "SET", "maxmemory", "1") }, Heal: func() { s.do("CONFIG", "SET", "maxmemory", "0") }},
		exactkit.Fault{Name: "read-only replica", Strike: func() { s.do("REPLICAOF", "127.0.0.1", "1") }, Heal: func() { s.do("REPLICAOF", "NO", "ONE") }},
		exactkit.Fault{Name: "loads", Strike: func() {
			// Some thousand keys; each takes some ms to load.
			s.do("EVAL", "for i = 1, 10000 do redis.call('SET', 'filler' .. i, i) end", "0")
			// What is counted is saved: nothing is between here and the kill, which ends the pause.
			require.Equal(t, "+OK", s.do("CLIENT", "PAUSE", "3600000", "WRITE"))
			require.Equal(t, "+OK", s.do("SAVE"))
			s.Kill()
			s.args = []string{"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"}
			s.Start()
		}, Heal: func() {
			s.do("CONFIG", "SET", "key-load-delay", "0")
			require.Eventually(t, func() bool { return s.do("DEL", "filler1") != "" && !strings.HasPrefix(s.do("GET", "k"), "-LOADING") }, patient, 10*time.Millisecond)
		}},
		exactkit.Fault{Name: "wrong password", Strike: func() {
			s.do("CONFIG", "SET", "requirepass", "changed")
			p.Cut()
		}, Heal: func() { s.authenticated("changed", "CONFIG", "SET", "requirepass", "") }})
	all[2].Loses = true
	before := runtime.NumGoroutine()
	exactkit.AmidALoad(t, all, deadline, func(t *testing.T) exact.Counter { return open(t, throughProxy(p)) })
	kept := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	exactkit.AmidALoad(t, []exactkit.Fault{{Name: "killed and restarted, where each write is kept", Strike: kept.Kill, Heal: kept.Start}}, deadline,
		func(t *testing.T) exact.Counter { return open(t, kept.url()) })
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, patient, 20*time.Millisecond, "goroutines end")
}

// private returns a certificate for this machine that is self-signed, and the file that holds it.
func private(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key := kit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der := kit.Must(x509.CreateCertificate(rand.Reader, about, about, key.Public(), key))(t)
	file := filepath.Join(t.TempDir(), "ca & more.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// A private CA is named by URL, and no other is trusted beside it.
func TestPrivateCA(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	cert, file := private(t)
	secure := p.BehindTLS(&tls.Config{Certificates: []tls.Certificate{cert}})
	_, other := private(t)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}
	for _, tt := range []struct{ query, fault string }{
		{"?ca=" + url.QueryEscape(file), ""},
		{"", "certificate signed by unknown authority"},
		{"?ca=" + url.QueryEscape(other), "x509: "},
	} {
		c := unconnected(t, "rediss://"+secure+"/0"+tt.query)
		if tt.fault == "" {
			connected(t, c)
			continue
		}
		require.Eventually(t, func() bool { // an attempt may also end because it takes too long
			_, err := c.Take(t.Context(), call)
			return errors.Is(err, exact.ErrNotCounted) && strings.Contains(err.Error(), tt.fault)
		}, patient, time.Millisecond, tt.fault)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for url, want := range map[string]string{
		"redis://u:secret@localhost/0?ca=" + url.QueryEscape(file):   "url: must be rediss:// to have a ca",
		"rediss://u:secret@localhost/0?ca=" + url.QueryEscape(empty): "url: has a ca without a certificate in PEM",
		"rediss://u:secret@localhost/0?ca=nowhere.pem":               "url: has a ca that cannot be read: open nowhere.pem: no such file or directory",
	} {
		_, err := redis.Open(url, redis.Config{})
		require.EqualError(t, err, want)
	}
}

// clientsOf returns what the server says of its connections that last sent a command.
func (s *server) clientsOf(command string) (ids []string) {
	for line := range strings.SplitSeq(s.do("CLIENT", "LIST"), "\n") {
		if strings.Contains(line, " cmd="+command+" ") {
			ids = append(ids, strings.TrimPrefix(strings.Fields(line)[0], "id="))
		}
	}
	return ids
}

// aloneOn has a caller call until it does so on the connection for lone calls, and returns
// the server's number of that. The client asks for it: calls that are not alone have several
// connections, and take one by chance.
func aloneOn(t *testing.T, s *server, c *redis.Counter, take func(id string) (exact.Verdict, error)) (alone string) {
	t.Helper()
	n := 0
	require.Eventually(t, func() bool {
		var made bool
		alone, made = c.LoneID()
		n++
		kit.Must(take("warm" + strconv.Itoa(n)))(t)
		return made && slices.Contains(s.clientsOf("evalsha"), alone)
	}, patient, 10*time.Millisecond)
	return alone
}

func lonely(t *testing.T) (*server, *redis.Counter, func(id string) (exact.Verdict, error)) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 1_000_000)
	return s, c, func(id string) (exact.Verdict, error) {
		return c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: id})
	}
}

// A connection that is cut between calls costs no call with an ID its verdict, and counts none
// twice; a later caller has another.
func TestLoneConnectionIsCut(t *testing.T) {
	s, c, take := lonely(t)
	alone := aloneOn(t, s, c, take)
	before := kit.Must(take("before"))(t)
	s.do("CLIENT", "KILL", "ID", alone)
	after := kit.Must(take("after"))(t)
	require.True(t, after.Admitted)
	require.False(t, after.Replayed)
	require.Equal(t, before.Limits[0].Remaining-1, after.Limits[0].Remaining)
	require.NotEqual(t, alone, aloneOn(t, s, c, take))
}

// Without an ID nothing is asked again: it may have been counted.
func TestLoneCallWithoutAnIDIsNotRepeated(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	c := open(t, throughProxy(p))
	policy := exactkit.PerYear(t, 1_000_000)
	take := func(id string) (exact.Verdict, error) {
		return c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: policy, ID: id})
	}
	for alone, lost := "", false; !lost; {
		alone = aloneOn(t, s, c, take)
		before, err := take("")
		require.NoError(t, err)
		p.Set(exactkit.Ways{LoseEvery: 1})
		_, err = take("")
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
		p.Set(exactkit.Ways{})
		id, ok := c.LoneID() // on a busy machine the call may have gone with the others
		lost = !ok || id != alone
		after := kit.Must(take(""))(t)
		require.Equal(t, before.Limits[0].Remaining-2, after.Limits[0].Remaining)
	}
}

// A lone call keeps its deadline, may have been counted, and leaves the others their
// connection.
func TestLoneCallKeepsItsDeadline(t *testing.T) {
	s, c, take := lonely(t)
	sentInTime(t, func() []error {
		aloneOn(t, s, c, take)
		s.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for n := range errs {
			wg.Go(func() {
				_, errs[n] = c.Take(ctx, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: exactkit.PerYear(t, 5)})
				if !errors.Is(errs[n], context.DeadlineExceeded) {
					t.Error(errs[n])
				}
			})
		}
		ends(t, &wg)
		s.Thaw()
		connected(t, c) // where it froze for a second, the client has given the connections up
		return errs
	})
	kit.Must(take("well"))(t)
}

// A lone caller finds its scripts where the server has lost them.
func TestLoneCallerLoadsScripts(t *testing.T) {
	s, c, take := lonely(t)
	aloneOn(t, s, c, take)
	before := kit.Must(take("before"))(t)
	s.do("SCRIPT", "FLUSH")
	after := kit.Must(take(""))(t)
	require.Equal(t, before.Limits[0].Remaining-1, after.Limits[0].Remaining)
}

// A call that may be cancelled before its deadline, and is not short, goes where that ends it.
func TestCallIsCancelled(t *testing.T) {
	s, c, take := lonely(t)
	sentInTime(t, func() []error {
		aloneOn(t, s, c, take)
		s.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(deadline, cancel)
		_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.ErrorIs(t, err, context.Canceled)
		s.Thaw()
		connected(t, c) // as above
		return []error{err}
	})
}

// startCluster starts three nodes, each with a third of the slots.
func startCluster(t *testing.T) [3]*server {
	t.Helper()
	kit.OnlyWhole(t, "waits for a cluster to form, for seconds")
	var nodes [3]*server
	for i := range nodes {
		// If a node is silent for longer, the others say CLUSTERDOWN, and answer no client.
		nodes[i] = startServer(t, "--cluster-enabled", "yes", "--cluster-port", kit.FreePort(t), "--cluster-node-timeout", "600000")
	}
	for i, s := range nodes {
		require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*5461), strconv.Itoa(i*5461+5460)))
		if i == 2 {
			require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTS", "16383"))
		}
	}
	for _, s := range nodes[1:] {
		require.Equal(t, "+OK", nodes[0].do("CLUSTER", "MEET", "127.0.0.1", s.Port, s.args[3]))
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool {
			info := s.do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}, patient, 50*time.Millisecond)
	}
	return nodes
}

// TestCluster runs the suite on three nodes.
func TestCluster(t *testing.T) {
	nodes := startCluster(t)
	suite := exacttest.Suite{Open: func() (exact.Counter, error) {
		return dialed(t, nodes[1].url())
	}}
	require.NoError(t, suite.Test())

	// Many keys, on all nodes.
	c := open(t, nodes[2].url())
	p := exactkit.PerYear(t, 3)
	require.EqualValues(t, 3000, exactkit.Admitted(t, 32, 157, func(w, n int) (exact.Counter, exact.Call) {
		n = 32*n + w
		return c, exact.Call{Key: strconv.Itoa(n % 1000), Cost: 1, Policy: p, ID: strconv.Itoa(n)}
	}))
	for _, s := range nodes {
		size := s.do("DBSIZE")
		n := kit.Must(strconv.Atoi(strings.TrimPrefix(size, ":")))(t)
		require.Greater(t, n, 250, "every node has its part")
	}
}

// One node that hangs is an outage for its customers, and for no others.
func TestOneHungNodeOfACluster(t *testing.T) {
	nodes := startCluster(t)
	counter := open(t, nodes[1].url())
	// On a busy machine a node that is well may take long; the hung one never answers.
	site := newSite(t, counter, middleware.FailClosed, limit, 3*time.Second)
	call := exact.Call{Cost: 1, Policy: exactkit.PerYear(t, limit)}
	var customers [3][]string // by node
	require.Eventually(t, func() bool {
		site.ask("warm")
		parts := make(map[int]bool)
		for n := range 100 {
			call.Key = fmt.Sprint(n)
			parts[counter.Part(call)] = true
		}
		return len(parts) == len(nodes)
	}, patient, 10*time.Millisecond, "the counter knows its nodes")
	// Which node has a customer is seen where it is counted.
	size := func() (sizes [3]string) {
		for i, s := range nodes {
			sizes[i] = s.do("DBSIZE")
		}
		return sizes
	}
	for n := 0; len(customers[0]) < 8 || len(customers[1]) < 16 || len(customers[2]) < 16; n++ {
		customer := fmt.Sprint("customer", n)
		before := size()
		status, _ := site.ask(customer)
		require.Equal(t, http.StatusOK, status)
		for i, now := range size() {
			if now != before[i] {
				customers[i] = append(customers[i], customer)
			}
		}
	}

	nodes[0].Freeze()
	defer nodes[0].Thaw()
	var wg sync.WaitGroup
	var well, refused, busy, ill atomic.Int64
	end := make(chan struct{})
	for w := range 48 {
		wg.Go(func() {
			node := w % 3
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				status, outage := site.ask(customers[node][n%len(customers[node])])
				switch {
				case node == 0:
					ill.Add(1)
				case outage:
					refused.Add(1)
				case status == http.StatusServiceUnavailable:
					busy.Add(1)
				default:
					well.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	require.Eventually(t, func() bool { return site.logged.count("does not answer") == 1 && well.Load() > 2000 }, patient, 10*time.Millisecond)
	close(end)
	ends(t, &wg)
	t.Logf("healthy nodes: %d requests answered, %d not, and %d had no turn; on the hung one %d", well.Load(), refused.Load(), busy.Load(), ill.Load())
	require.Zero(t, refused.Load(), "no client of a healthy node is refused for want of an answer")
	require.Less(t, busy.Load(), well.Load()/4, "a machine that is busy for a moment, and nothing else")

	nodes[0].Thaw()
	require.Eventually(t, func() bool {
		status, _ := site.ask(customers[0][0])
		return status != http.StatusServiceUnavailable
	}, patient, 20*time.Millisecond, "it recovers by itself")
}
