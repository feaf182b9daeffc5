// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

var addressCases = map[string]string{
	"10.0.0.7:9000":           "10.0.0.7:9000",
	"[::ffff:10.0.0.7]:09000": "10.0.0.7:9000",
	"[FD00:0::7]:9000":        "[fd00::7]:9000",
	"[fe80::7%eth0]:9000":     "",
	"0.0.0.0:9000":            "",
	"[::]:9000":               "",
	"127.1:9000":              "",
	"010.0.0.7:9000":          "",
	"Pod-0.Ring.svc.:9000":    "pod-0.ring.svc:9000",
	"10.0.0.7":                "",
	":9000":                   "",
	"a:0":                     "",
	"a:65536":                 "",
	"a:http":                  "",
	"a b:9000":                "",
	"a/b:9000":                "",
	"u@a:9000":                "",
	".:9000":                  "",
	"a%:9000":                 "",
	"a..:9000":                "",
	"ä:9000":                  "",
	"":                        "",
}

// An address has one spelling, or each process would own what another owns.
func TestAddresses(t *testing.T) {
	for given, want := range addressCases {
		got, err := ring.AddressOf(given)
		require.Equal(t, want, got, given)
		require.Equal(t, want == "", err != nil, given)
	}
}

func FuzzAddress(f *testing.F) {
	for given := range addressCases {
		f.Add(given)
	}
	f.Fuzz(func(t *testing.T, given string) {
		is, err := ring.AddressOf(given)
		if err != nil {
			require.Empty(t, is)
			return
		}
		again, err := ring.AddressOf(is)
		require.NoError(t, err)
		require.Equal(t, is, again)
		r, err := ring.OpenDeaf(ring.Config{Self: "self:1", Members: []string{"self:1", given}, Secrets: secrets, Logger: silent}, nil)
		require.NoError(t, err, "whom it names can be asked")
		require.NoError(t, r.Close())
	})
}

// Each mistake of a Config is told, with its field.
func TestConfig(t *testing.T) {
	good := ring.Config{Self: "a:1", Members: []string{"b:1", "a:1"}, Secrets: secrets, Logger: silent}
	for field, change := range map[string]func(*ring.Config){
		"Self: must be host:port":                       func(c *ring.Config) { c.Self = "a" },
		"Members: \"b\" must be host:port":              func(c *ring.Config) { c.Members = []string{"b"} },
		"Members: must have Self among them":            func(c *ring.Config) { c.Members = []string{"b:1"} },
		"Members: must be 1 to 256 addresses, not 0":    func(c *ring.Config) { c.Members = []string{} },
		"Members: must be 1 to 256 addresses, not 257":  func(c *ring.Config) { c.Members = many(257) },
		"DNS: must be host:port, or a name that begins": func(c *ring.Config) { c.Members, c.DNS = nil, "a" },
		"port 2, of which Self must be one":             func(c *ring.Config) { c.Members, c.DNS = nil, "b:2" },
		"port 1, of which Self must be one":             func(c *ring.Config) { c.Members, c.Self, c.DNS = nil, "10.0.0.1:2", "b:1" },
		"must say who is in the ring, not 0":            func(c *ring.Config) { c.Members = nil },
		"must say who is in the ring, not 2":            func(c *ring.Config) { c.DNS = "a:1" },
		"must say who is in the ring, not 3": func(c *ring.Config) {
			c.DNS, c.Find = "a:1", func(context.Context) ([]string, error) { return nil, nil }
		},
		"Every: must be from 100ms to 1m":                   func(c *ring.Config) { c.Every = time.Hour },
		"Linger: must be from 0 to 5m":                      func(c *ring.Config) { c.Linger = -1 },
		"Keys: must be at least 1":                          func(c *ring.Config) { c.Keys = -1 },
		"Secrets: must be 1 to 4, not 0":                    func(c *ring.Config) { c.Secrets = nil },
		"Secrets[0]: must be at least 32 random bytes, not": func(c *ring.Config) { c.Secrets = [][]byte{{1}} },
	} {
		cfg := good
		change(&cfg)
		r, err := ring.OpenDeaf(cfg, nil)
		require.ErrorContains(t, err, field)
		require.Nil(t, r)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", good, good, &good), "7, 7", "no secret is shown")
	find := func(context.Context) ([]string, error) { return many(3), nil }
	before := runtime.NumGoroutine()
	_, err := ring.Open(ring.Config{Self: "192.0.2.1:9", Find: find, Secrets: secrets, Logger: silent})
	require.Error(t, err, "nobody listens at an address that is another machine's")
	requireNoMore(t, before)
}

func many(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("a%d:1", i))
	}
	return list
}

// The keys are spread evenly; who comes takes its share and leaves the rest where they are; and another secret
// spreads them in another way.
func TestKeysAreSpread(t *testing.T) {
	p, keys := exactkit.PerYear(t, 1), 20_000
	owners := func(secret byte, members ...string) (of []string, share map[string]int) {
		r, err := ring.OpenDeaf(ring.Config{Self: members[0], Members: members, Secrets: [][]byte{bytes.Repeat([]byte{secret}, 32)}, Logger: silent}, nil)
		require.NoError(t, err)
		share = make(map[string]int)
		for i := range keys {
			of = append(of, r.OwnerOf(exact.Call{Key: strconv.Itoa(i), Policy: p}))
			share[of[i]]++
		}
		return of, share
	}
	for _, n := range []int{2, 3, 10, 50} {
		of, share := owners(7, many(n)...)
		require.Len(t, share, n)
		most := slices.Max(slices.Collect(maps.Values(share)))
		require.Less(t, float64(most), 1.25*float64(keys)/float64(n))
		after, _ := owners(7, many(n+1)...)
		moved := 0
		for i := range of {
			if after[i] != of[i] {
				require.Equal(t, many(n + 1)[n], after[i], "only who comes takes keys")
				moved++
			}
		}
		require.InDelta(t, 1/float64(n+1), float64(moved)/float64(keys), 0.02)
	}
	of, _ := owners(7, many(10)...)
	other, _ := owners(8, many(10)...)
	same := 0
	for i := range of {
		if of[i] == other[i] {
			same++
		}
	}
	require.InDelta(t, 0.1, float64(same)/float64(keys), 0.02)
}

// Each member is a part of its own for package middleware, which guards 32 apart: it stays so, and who comes
// has none that another has or has left a moment ago.
func TestPartsStay(t *testing.T) {
	r, err := ring.OpenDeaf(ring.Config{Self: "self:1", Members: []string{"self:1"}, Secrets: secrets, Logger: silent}, nil)
	require.NoError(t, err)
	p := exactkit.PerYear(t, 1)
	parts := func() map[string]int {
		of := make(map[string]int)
		for i := range 2000 {
			call := exact.Call{Key: strconv.Itoa(i), Policy: p}
			of[r.OwnerOf(call)] = r.Part(call) % 32
		}
		return of
	}
	require.Zero(t, r.Part(exact.Call{Key: "k"}), "a call that is mistaken")
	before := parts()
	for i := range 100 {
		list := append(many(10 + i)[i:], "self:1")
		r.Adopt(list...)
		now := parts()
		require.Len(t, now, 11)
		taken := make(map[int]bool)
		for address, part := range now {
			require.False(t, taken[part], "two have one part")
			taken[part] = true
			if was, known := before[address]; known {
				require.Equal(t, was, part, "it stays")
				continue
			}
			for gone, was := range before {
				require.NotEqual(t, was, part, "the part of %s", gone)
			}
		}
		before = now
	}
	require.EqualValues(t, 101, r.Stats().Changes)
	r.Adopt(append(many(40), "self:1")...)
	require.Len(t, r.Stats().Members, 41)
}

// A resolver is DNS.
type resolver struct {
	ips     atomic.Pointer[[]string]
	srv     []*net.SRV
	network atomic.Value
}

func (r *resolver) LookupNetIP(_ context.Context, network, host string) (ips []netip.Addr, err error) {
	if host != "tally.internal" {
		return nil, errors.New("no such host")
	}
	r.network.Store(network)
	list := r.ips.Load()
	if list == nil {
		return nil, errors.New("DNS is away")
	}
	for _, ip := range *list {
		ips = append(ips, netip.MustParseAddr(ip))
	}
	return ips, nil
}

func (r *resolver) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service+proto != "" || name != "_ring._tcp.tally.internal" {
		return "", nil, errors.New("no such host")
	}
	return name, r.srv, nil
}

func (r *resolver) say(ips ...string) { r.ips.Store(&ips) }

// A text is written by several.
type text struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// DNS is asked again and again. What it says is in force in two seconds; that it is away, or names nobody, changes
// nothing; and until it has answered once, calls fail.
func TestDNSIsAskedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dns, said := new(resolver), new(text)
		log := slog.New(slog.NewTextHandler(said, nil))
		r, err := ring.OpenDeaf(ring.Config{Self: "[fd00::1]:9000", DNS: "tally.internal:9000", Secrets: secrets, Logger: log}, dns)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1)}
		_, err = r.Take(t.Context(), call)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.Zero(t, r.Part(call))
		_, err = r.Peek(t.Context(), call)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.ErrorIs(t, r.Refund(t.Context(), exact.Receipt{Key: "k", Policy: call.Policy}), exact.ErrNotCounted)
		require.Contains(t, said.String(), "ring-list-away")
		require.Nil(t, r.Stats().Members)

		dns.say("fd00::1", "fd00::2", "fd00::1")
		time.Sleep(2001 * time.Millisecond)
		require.Equal(t, []string{"[fd00::1]:9000", "[fd00::2]:9000"}, r.Stats().Members)
		require.Equal(t, "ip6", dns.network.Load())
		require.Contains(t, said.String(), "ring-members")
		for _, nothing := range []func(){func() { dns.ips.Store(nil) }, func() { dns.say() }} {
			nothing()
			time.Sleep(10 * time.Second)
			require.Len(t, r.Stats().Members, 2, "the last list stays")
		}
		require.Greater(t, r.Stats().Age, 20*time.Second)
		dns.say("fd00::1")
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"[fd00::1]:9000"}, r.Stats().Members)
		require.True(t, exactkit.Take(t, r, call).Admitted)

		require.NotContains(t, said.String(), "ring-not-listed")
		dns.say("fd00::7") // a minute is what a deploy may take
		time.Sleep(50 * time.Second)
		require.NotContains(t, said.String(), "ring-not-listed")
		time.Sleep(20 * time.Second)
		require.Contains(t, said.String(), "ring-not-listed")
	})
}

// A process that leaves in order is dropped from the list while it lingers, which is no mistake.
func TestLeavingIsNotToldAsAMistake(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dns, said := new(resolver), new(text)
		dns.say("fd00::1", "fd00::2")
		log := slog.New(slog.NewTextHandler(said, nil))
		r, err := ring.OpenDeaf(ring.Config{Self: "[fd00::1]:9000", DNS: "tally.internal:9000", Secrets: secrets, Logger: log, Linger: 3 * time.Minute}, dns)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		dns.say("fd00::2")
		time.Sleep(3 * time.Second)
		require.NoError(t, r.Close())
		require.Contains(t, said.String(), "went=[[fd00::1]:9000]")
		require.NotContains(t, said.String(), "ring-not-listed")
	})
}

// SRV records name hosts and ports.
func TestSRV(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dns := &resolver{srv: []*net.SRV{{Target: "pod-1.ring.", Port: 9001}, {Target: "Pod-0.ring.", Port: 9000}}}
		r, err := ring.OpenDeaf(ring.Config{Self: "pod-0.ring:9000", DNS: "_ring._tcp.tally.internal", Secrets: secrets, Logger: silent}, dns)
		require.NoError(t, err)
		require.Equal(t, []string{"pod-0.ring:9000", "pod-1.ring:9001"}, r.Stats().Members)
		require.NoError(t, r.Close())
		r, err = ring.OpenDeaf(ring.Config{Self: "10.0.0.1:9000", DNS: "tally.internal:9000", Secrets: secrets, Logger: silent, Linger: 1}, dns)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, "ip4", dns.network.Load())
	})
}

// The program may say itself who is there. Close goes on answering for a while: others may have lists that still name it.
func TestFindAndLinger(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		find := func(ctx context.Context) ([]string, error) {
			if asked.Add(1) == 3 { // it hangs
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"a:1", "b:1"}, nil
		}
		r, err := ring.OpenDeaf(ring.Config{Self: "a:1", Find: find, Secrets: secrets, Logger: silent, Every: time.Second, Linger: 7 * time.Second}, nil)
		require.NoError(t, err)
		time.Sleep(10*time.Second + time.Millisecond)
		require.InDelta(t, 10, asked.Load(), 1)
		began := time.Now()
		require.NoError(t, r.Close())
		require.Equal(t, 7*time.Second, time.Since(began))
		require.NoError(t, r.Close())
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

// Who asks a process for keys that are another's has another list. That is told when it lasts for longer than a deploy.
func TestListsThatDiffer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, said := newWorld(t), new(bytes.Buffer)
		a, b := w.start(), w.start()
		cfg := ring.Config{Self: a.address, Members: []string{a.address}, Secrets: secrets, Transport: way{w, a}, Logger: slog.New(slog.NewTextHandler(said, nil)), Now: w.clock.Now}
		var err error
		a.Ring, err = ring.OpenDeaf(cfg, nil)
		require.NoError(t, err)
		a.Adopt(b.address) // b has itself alone, a has b alone: each asks b
		b.Adopt(a.address) // now b says that a owns all, and asks it
		for i := range 90 {
			_, err := b.Take(t.Context(), exact.Call{Key: strconv.Itoa(i), Cost: 1, Policy: exactkit.PerYear(t, 1)})
			require.NoError(t, err)
			require.EqualValues(t, i+1, a.Stats().Foreign)
			require.Equal(t, i > 60, bytes.Contains(said.Bytes(), []byte("ring-lists-differ")), "%d", i)
			time.Sleep(time.Second)
		}
	})
}

// A request that was recorded on its way to one member is worth nothing at another, and so is one of a stranger.
func TestRequestsAreForOneMember(t *testing.T) {
	w := newWorld(t)
	fleet := w.fleet(3)
	p := exactkit.PerYear(t, 5)
	var recorded *http.Request
	var body []byte
	asker, err := ring.OpenDeaf(ring.Config{
		Self: "10.9.9.9:1", Members: []string{"10.9.9.9:1"}, Secrets: secrets, Logger: silent, Now: w.clock.Now,
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			recorded = r
			body, _ = io.ReadAll(r.Body)
			return nil, errWay
		}),
	}, nil)
	require.NoError(t, err)
	asker.Adopt(fleet[0].address)
	_, err = asker.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.Error(t, err)
	for i, want := range []int{200, 401, 401} {
		again := recorded.Clone(t.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		fleet[i].Handler().ServeHTTP(rec, again)
		require.Equal(t, want, rec.Code)
	}
	require.Equal(t, 1, fleet[0].Stats().Accounts)
	said := new(bytes.Buffer)
	told, err := ring.OpenDeaf(ring.Config{Self: "10.8.8.8:1", Members: []string{"10.8.8.8:1"}, Secrets: secrets, Logger: slog.New(slog.NewTextHandler(said, nil))}, nil)
	require.NoError(t, err)
	again := recorded.Clone(t.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	told.Handler().ServeHTTP(httptest.NewRecorder(), again)
	require.Contains(t, said.String(), "code=remote-secret-unknown ", "where each has a key of its own, the asker may have a wrong address")
	stranger, err := ring.OpenDeaf(ring.Config{Self: "10.9.9.9:1", Members: []string{"10.9.9.9:1"}, Secrets: [][]byte{bytes.Repeat([]byte{8}, 32)}, Logger: silent, Transport: way{w, fleet[0]}}, nil)
	require.NoError(t, err)
	stranger.Adopt(fleet[0].address)
	_, err = stranger.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	require.Equal(t, 1, fleet[0].Stats().Accounts)
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
