// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

func TestThreatsOfFloods(t *testing.T) {
	const strangers = 20_000
	victim := handlers.With("Victim", "1")

	t.Run("T29 refusals cost no memory", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h, _ := handlers.Limited(t, cfg)
		handlers.Admitted(h, 5)
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		handlers.From("203.0.113.1")(r)
		w := &handlers.Sink{Fields: http.Header{}}
		before := handlers.Heap()
		for range strangers {
			clear(w.Fields)
			h.ServeHTTP(w, r)
		}
		require.Less(t, handlers.Heap()-before, int64(64<<10))
		require.Contains(t, w.Fields, "Retry-After")
	})
	t.Run("T30 forged tokens count for nothing", func(t *testing.T) {
		tok, _, _ := handlers.Genuine(t, 1)
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		for i := range 100 {
			forged := tok[:64] + strings.Repeat(string(rune('A'+i%26)), len(tok)-64-44) + "." + strings.Repeat("A", 43)
			handlers.Send(h, handlers.Showing(forged, forged, forged, forged, forged, forged))
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "bad signature")
		}
		require.EqualValues(t, 5, h.Spy.Calls.Load())
	})
	t.Run("T31 a flood of strangers does not wash out a count", func(t *testing.T) {
		f := handlers.NewFlood(handlers.Contact(new(handlers.Clock)))
		log, decisions := handlers.LogTo(&f.Cfg), handlers.Recorded{}
		f.Cfg.OnDecision = func(_ context.Context, d middleware.Decision) { decisions.All = append(decisions.All[:0], d) }
		m := handlers.NewLimiter(t, f.Cfg)
		h := m.Handler(new(handlers.Spy))
		require.Equal(t, 5, handlers.Admitted(h, 10, victim))

		f.Send(h, 1000)
		before := handlers.Heap()
		f.Send(h, strangers)
		require.Less(t, handlers.Heap()-before, int64(64<<10), "twenty times what the memory is made for")
		require.Positive(t, decisions.Last().Inherited, "which the decision says")
		require.Positive(t, m.Stats().Inherited)
		require.Zero(t, m.Stats().Saturations)
		require.Len(t, log.Lines(), 1, "one line")
		require.Contains(t, log.Lines()[0], "saturated")
		require.Zero(t, handlers.Admitted(h, 10, victim), "the victim of the wash-out is still counted")
	})
	t.Run("T31 alarms do not flood the log", func(t *testing.T) {
		now := new(handlers.Clock)
		f := handlers.NewFlood(handlers.Contact(now))
		f.Cfg.MaxClients = 1
		log := handlers.LogTo(&f.Cfg)
		h := handlers.NewLimiter(t, f.Cfg).Handler(new(handlers.Spy))
		for minute := range 3 {
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1)
			now.Advance(59 * time.Second)
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1, "not before a minute has passed")
			now.Advance(-time.Second)
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1, "nor because a clock trembles")
			now.Advance(2 * time.Second)
		}
		now.Advance(-time.Hour)
		f.Send(h, 1000)
		require.Len(t, log.Lines(), 5, "but a clock that was an hour fast does not silence it for the hour")
		require.Contains(t, log.Lines()[3], "code=clock-jumped", "and is told of itself, before what comes of it")
	})
	t.Run("T31 a saturated memory still goes by the token", func(t *testing.T) {
		f := handlers.NewFlood(handlers.Contact(new(handlers.Clock)))
		f.Cfg.MaxClients = 1
		m := handlers.NewLimiter(t, f.Cfg)
		h := m.Handler(new(handlers.Spy))
		f.Send(h, 20)
		tok := handlers.Spend(t, handlers.NewLimiter(t, f.Cfg).Handler(new(handlers.Spy)), 5, victim)
		require.Equal(t, http.StatusTooManyRequests, handlers.Send(h, victim, handlers.Showing(tok)).StatusCode)
		require.Equal(t, http.StatusOK, handlers.Send(h, victim).StatusCode, "whose bearer is new here")
	})
}

func TestWithoutMemory(t *testing.T) {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.InsecureNoMemory = true
	h := handlers.NewSite(t, cfg)
	stats := h.M.Stats()
	require.Empty(t, handlers.Noted(stats.Proofs))
	require.Empty(t, handlers.Noted(stats.Tokens))
	require.Equal(t, middleware.Stats{Policy: "contact", Proofs: stats.Proofs, Tokens: stats.Tokens, KeyIDs: []string{"83YK"}, TokenLife: stats.TokenLife}, stats)
	require.Equal(t, 100, handlers.Admitted(h, 100), "no memory, no bound: as its name says")
	tok := handlers.Spend(t, h, 5)
	require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)), "but for who echoes")
	require.Equal(t, 6, handlers.Admitted(h, 6, handlers.From("2001:db8::1")), "IPv6 networks are counted in memory only")
}
