// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// heap returns how many bytes live.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A flood is requests by as many addresses as one likes, without the cost of making each request anew.
type flood struct {
	next uint32
	cfg  middleware.Config
	w    sink
	r    *http.Request
}

func newFlood(cfg middleware.Config) *flood {
	f := &flood{cfg: cfg, w: sink{http.Header{}}, r: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}
	f.cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		if r.Header.Get("Victim") != "" {
			return address("198.51.100.20"), nil
		}
		f.next++
		return middleware.Address(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, f.next|10<<24)))), nil
	}
	return f
}

func (f *flood) send(h http.Handler, n int) {
	for range n {
		clear(f.w.header)
		h.ServeHTTP(&f.w, f.r)
	}
}

func TestThreatsOfFloods(t *testing.T) {
	const strangers = 20_000
	victim := with("Victim", "1")

	t.Run("T29 refusals cost no memory", func(t *testing.T) {
		cfg := contact(new(clock))
		h, _ := limited(t, cfg)
		admitted(h, 5)
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		from("203.0.113.1")(r)
		w := &sink{http.Header{}}
		before := heap()
		for range strangers {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
		require.Less(t, heap()-before, int64(64<<10))
		require.Contains(t, w.header, "Retry-After")
	})
	t.Run("T30 forged tokens count for nothing", func(t *testing.T) {
		tok, _, _ := genuine(t, 1)
		cfg := contact(new(clock))
		h := newSite(t, cfg)
		for i := range 100 {
			forged := tok[:64] + strings.Repeat(string(rune('A'+i%26)), len(tok)-64-44) + "." + strings.Repeat("A", 43)
			send(h, showing(forged, forged, forged, forged, forged, forged))
			require.ErrorContains(t, h.decisions.last().TokenErr, "bad signature")
		}
		require.EqualValues(t, 5, h.spy.calls.Load())
	})
	t.Run("T31 a flood of strangers does not wash out a count", func(t *testing.T) {
		f := newFlood(contact(new(clock)))
		log, decisions := logTo(&f.cfg), recorded{}
		f.cfg.OnDecision = func(_ context.Context, d middleware.Decision) { decisions.all = append(decisions.all[:0], d) }
		m := newLimiter(t, f.cfg)
		h := m.Handler(new(spy))
		require.Equal(t, 5, admitted(h, 10, victim))

		f.send(h, 1000)
		before := heap()
		f.send(h, strangers)
		require.Less(t, heap()-before, int64(64<<10), "twenty times what the memory is made for")
		require.Positive(t, decisions.last().Inherited, "which the decision says")
		require.Positive(t, m.Stats().Inherited)
		require.Zero(t, m.Stats().Saturations)
		require.Len(t, log.lines(), 1, "one line")
		require.Contains(t, log.lines()[0], "saturated")
		require.Zero(t, admitted(h, 10, victim), "the victim of the wash-out is still counted")
	})
	t.Run("T31 alarms do not flood the log", func(t *testing.T) {
		now := new(clock)
		f := newFlood(contact(now))
		f.cfg.MaxClients = 1
		log := logTo(&f.cfg)
		h := newLimiter(t, f.cfg).Handler(new(spy))
		for minute := range 3 {
			f.send(h, 1000)
			require.Len(t, log.lines(), minute+1)
			now.advance(59 * time.Second)
			f.send(h, 1000)
			require.Len(t, log.lines(), minute+1, "not before a minute has passed")
			now.advance(-time.Second)
			f.send(h, 1000)
			require.Len(t, log.lines(), minute+1, "nor because a clock trembles")
			now.advance(2 * time.Second)
		}
		now.advance(-time.Hour)
		f.send(h, 1000)
		require.Len(t, log.lines(), 5, "but a clock that was an hour fast does not silence it for the hour")
		require.Contains(t, log.lines()[3], "code=clock-jumped", "and is told of itself, before what comes of it")
	})
	t.Run("T31 a saturated memory still goes by the token", func(t *testing.T) {
		f := newFlood(contact(new(clock)))
		f.cfg.MaxClients = 1
		m := newLimiter(t, f.cfg)
		h := m.Handler(new(spy))
		f.send(h, 20)
		tok := spend(t, newLimiter(t, f.cfg).Handler(new(spy)), 5, victim)
		require.Equal(t, http.StatusTooManyRequests, send(h, victim, showing(tok)).StatusCode)
		require.Equal(t, http.StatusOK, send(h, victim).StatusCode, "whose bearer is new here")
	})
}

func TestWithoutMemory(t *testing.T) {
	cfg := contact(new(clock))
	cfg.InsecureNoMemory = true
	h := newSite(t, cfg)
	stats := h.m.Stats()
	require.Empty(t, noted(stats.Proofs))
	require.Empty(t, noted(stats.Tokens))
	require.Equal(t, middleware.Stats{Policy: "contact", Proofs: stats.Proofs, Tokens: stats.Tokens, KeyIDs: []string{"83YK"}, TokenLife: stats.TokenLife}, stats)
	require.Equal(t, 100, admitted(h, 100), "no memory, no bound: as its name says")
	tok := spend(t, h, 5)
	require.Zero(t, admitted(h, 5, showing(tok)), "but for who echoes")
	require.Equal(t, 6, admitted(h, 6, from("2001:db8::1")), "IPv6 networks are counted in memory only")
}
