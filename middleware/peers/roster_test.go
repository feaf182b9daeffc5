// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A list is in one order, and each address is host:port.
func TestLists(t *testing.T) {
	for _, bad := range []string{"10.0.0.7", ":9000", "a:", "a:0", "a:65536", "a:http", "http://a:1", "fd00::1:9000"} {
		_, err := listOf([]string{"a:1", bad})
		require.ErrorContains(t, err, strconv.Quote(bad)+" must be host:port")
	}
	list := kit.Must(listOf([]string{"b:1", "a:1", "b:1", "[fd00::7]:9000"}))(t)
	require.Equal(t, []string{"[fd00::7]:9000", "a:1", "b:1"}, list)
	r, now := new(roster), time.Now()
	_, _, changed := r.adopt([]string{"a:1", "b:1"}, now)
	require.False(t, changed, "it is the first")
	b := r.target("b:1", now)
	came, went, changed := r.adopt([]string{"b:1", "c:1"}, now)
	require.True(t, changed)
	require.Equal(t, []string{"c:1"}, came)
	require.Equal(t, []string{"a:1"}, went)
	require.Same(t, b, r.target("b:1", now), "what is known of an address stays")
	_, _, changed = r.adopt([]string{"b:1", "c:1"}, now)
	require.False(t, changed)
	require.EqualValues(t, 2, r.changes)

	r.hear("b:1\nd:1\nno address\n", now)
	addresses := func() (all []string) {
		for _, t := range r.targets {
			all = append(all, t.address)
		}
		return all
	}
	require.Equal(t, []string{"a:1", "b:1", "c:1", "d:1"}, addresses())
	r.expire(now.Add(silence))
	require.Equal(t, []string{"b:1", "c:1", "d:1"}, addresses(), "a was never told")
	r.expire(now.Add(silence + 1))
	require.Equal(t, []string{"b:1", "c:1"}, addresses())
	for i := range 3 * maxMembers {
		r.hear("x:"+strconv.Itoa(i+1), now)
	}
	require.Len(t, r.targets, maxMembers)
}

// All problems of a Config are told at once, and none shows a secret.
func TestProblems(t *testing.T) {
	_, err := Open(Config{Members: []string{"b"}, DNS: "a", Self: "c", Secrets: [][]byte{{77}}, TLS: new(tls.Config)})
	require.Error(t, err)
	var fields []string
	for e := range storeless.ConfigErrors(err) {
		fields = append(fields, e.Field)
	}
	require.Equal(t, []string{"Members", "DNS", "Members", "Self", "Secrets[0]", "TLS"}, fields)
	require.NotContains(t, err.Error(), "77")
	good := Config{Members: []string{"a:1"}, Secrets: secrets}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", good, good, &good), "7, 7")
	for problem, change := range map[string]func(*Config){
		"Members: \"b\" must be host:port":                 func(c *Config) { c.Members = []string{"b"} },
		"64 addresses, not 0; or set DNS or Find instead":  func(c *Config) { c.Members = []string{} },
		"Members: must be 1 to 64 addresses, not 65":       func(c *Config) { c.Members = addresses(65) },
		"65535, or a name that begins with _":              func(c *Config) { c.Members, c.DNS = nil, "a" },
		"Members: set one of Members, DNS and Find, not 0": func(c *Config) { c.Members = nil },
		"set one of Members, DNS and Find, not 2":          func(c *Config) { c.DNS = "a:1" },
		"set one of Members, DNS and Find, not 3":          func(c *Config) { c.DNS, c.Find = "a:1", func(context.Context) ([]string, error) { return nil, nil } },
		"10.0.0.7:9000, since the list has no one port":    func(c *Config) { c.Members = []string{"a:1", "b:2"} },
		"Self: must be this process's own entry of the l":  func(c *Config) { c.Members, c.DNS = nil, "_peers._tcp.a" },
		"peers: Self: must be one of Members, not a:2":     func(c *Config) { c.Self = "a:2" },
		"Self: must have port 2 of DNS":                    func(c *Config) { c.Members, c.DNS, c.Self = nil, "a:2", "10.0.0.1:1" },
		"Secrets: must be 1 to 4, not 0":                   func(c *Config) { c.Secrets = nil },
		"Secrets: must be 1 to 4, not 5":                   func(c *Config) { c.Secrets = [][]byte{secretOf(1), secretOf(2), secretOf(3), secretOf(4), secretOf(5)} },
		"32 random bytes, not 0: `openssl rand -":          func(c *Config) { c.Secrets = [][]byte{{}} },
		"TLS: must have a certificate":                     func(c *Config) { c.TLS = new(tls.Config) },
	} {
		cfg := good
		change(&cfg)
		g, err := Open(cfg)
		require.ErrorContains(t, err, problem)
		require.Nil(t, g)
	}
	_, err = Open(Config{Self: "192.0.2.1:9", Members: []string{"192.0.2.1:9"}, Secrets: secrets})
	require.ErrorContains(t, err, "peers: Self: must be this process's own entry of the list, on this machine, at a port that no other process has: listen tcp 192.0.2.1:9: ")
}

// DNS is asked again and again. That it is away, or names nothing, changes nothing.
func TestDNSIsAskedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		byDNS := func(c *Config) { c.DNS = "tally.internal:9000" }
		w.dns.says("10.0.0.1")
		a := w.start("10.0.0.1:9000", byDNS)
		require.Less(t, a.took, 400*time.Millisecond, "it is the only one")
		require.Equal(t, "ip4", w.dns.network.Load())
		w.dns.says("10.0.0.1", "10.0.0.2", "10.0.0.1")
		b := w.start("10.0.0.2:9000", byDNS)
		require.Equal(t, []string{"10.0.0.2:9000"}, a.Stats().Heard, "b has greeted it, whose list does not have b yet")
		time.Sleep(2001 * time.Millisecond)
		require.Equal(t, []string{"10.0.0.1:9000", "10.0.0.2:9000"}, a.Stats().List)
		require.Contains(t, a.log.String(), "code=peers-members members=2 came=[10.0.0.2:9000] went=[] ")
		for _, nothing := range []func(){func() { w.dns.ips.Store(nil) }, func() { w.dns.says() }} {
			nothing()
			time.Sleep(10 * time.Second)
			require.Len(t, a.Stats().List, 2, "the last list stays")
			require.Len(t, a.Stats().Heard, 1)
		}
		require.Contains(t, a.log.String(), `code=peers-list-away error="no such host" `)
		require.Greater(t, a.Stats().Age, 20*time.Second)
		w.dns.says("10.0.0.1")
		time.Sleep(2 * time.Second)
		require.Len(t, a.Stats().Heard, 1, "whatever the list says, it is there")
		time.Sleep(2 * time.Minute)
		require.Contains(t, b.log.String(), "code=peers-not-listed ")
		require.NotContains(t, a.log.String(), "code=peers-not-listed ")
		require.EqualValues(t, 3, a.Stats().Changes)
		closeAll(a, b)
	})
}

// SRV records name hosts and ports; Find says what it wants, or hangs.
func TestSRVAndFind(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.dns.srv = []*net.SRV{{Target: "10.0.0.2.", Port: 9001}, {Target: "10.0.0.1.", Port: 9000}}
		a := w.start("10.0.0.1:9000", func(c *Config) { c.DNS = "_peers._tcp.tally.internal" })
		var asked atomic.Int64
		b := w.start("10.0.0.2:9001", func(c *Config) {
			c.Find = func(ctx context.Context) ([]string, error) {
				if asked.Add(1) == 2 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []string{"10.0.0.1:9000", "10.0.0.2:9001"}, nil
			}
		})
		time.Sleep(9 * time.Second)
		require.EqualValues(t, 5, asked.Load())
		require.Equal(t, []string{"10.0.0.1:9000", "10.0.0.2:9001"}, a.Stats().List)
		require.Equal(t, a.Stats().List[1:], a.Stats().Heard)
		require.Equal(t, b.Stats().List[:1], b.Stats().Heard)
		closeAll(a, b)
	})
}

// Without a list a process starts after a second, and hears whatever greets it.
func TestNoListYet(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("10.0.0.1:9000", func(c *Config) {
			c.Find = func(context.Context) ([]string, error) { return nil, errors.New("away") }
		})
		require.InDelta(t, time.Second, a.took, float64(100*time.Millisecond))
		require.Contains(t, a.log.String(), "code=peers-alone")
		b := w.start("10.0.0.2:9000", members(addresses(2)...))
		require.Less(t, b.took, 400*time.Millisecond)
		a.add(1)
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 1, b.sum())
		w.kill(b)
		time.Sleep(silence + time.Second)
		require.Contains(t, a.log.String(), "code=peers-gone member=10.0.0.2:9000 error=\"it says nothing\" ")
		closeAll(a)
	})
}

// A process that is not told its address finds itself, and tells others the address at which they reach it.
func TestSelfIsFound(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		anonymous := func(c *Config) { c.Self, c.Members = "", list }
		a := w.start(list[0], members(list...))
		b := w.start(list[1], anonymous)
		require.Equal(t, list[1:], a.Stats().Heard)
		time.Sleep(2 * time.Minute)
		require.NotContains(t, b.log.String(), "peers-not-listed")
		require.Equal(t, 1, w.open(), "none to itself")
		closeAll(a, b)
	})
	list := kit.Must(lookUp(t.Context(), whole{}, "a:1", ":9000"))(t)
	require.Equal(t, []string{"10.0.0.1:1", "[fd00::1]:1"}, list)
}

// A whole zone has both families.
type whole struct{ *zone }

func (whole) LookupNetIP(_ context.Context, network, _ string) (ips []netip.Addr, err error) {
	if network != "ip" {
		return nil, errors.New(network)
	}
	return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, nil
}

// The first frame has no room for the addresses that a process hears, and no era. So a process that starts does not take
// the records of one peer and serve before it knows of the others.
func TestAddressesComeBeforeTheEra(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list...)
		conn, s := w.enter(list[0], 9)
		_, err := conn.Write(s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 0, 1)))
		require.NoError(t, err)
		era := func() uint64 {
			_, content, err := s.in.read(conn, new([]byte))
			require.NoError(t, err)
			return binary.BigEndian.Uint64(content[16:])
		}
		require.Zero(t, era())
		require.NotZero(t, era())
		time.Sleep(50 * time.Millisecond)
		theirs := func() uint64 {
			all[0].mu.Lock()
			defer all[0].mu.Unlock()
			return all[0].peers[9].theirs
		}
		require.Zero(t, theirs(), "not known yet")
		_, err = conn.Write(s.out.append(nil, statusFrame, nil, append(status(time.Now(), 0, 7, 1), list[1]...)))
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		require.EqualValues(t, 7, theirs())
		require.NoError(t, conn.Close())
		closeAll(all...)
	})
}
