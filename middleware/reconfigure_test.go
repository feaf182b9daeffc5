// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestReconfigureKeepsTheMemory(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	require.Equal(t, 5, admitted(h, 10))

	for name, change := range map[string]func(*middleware.Config){
		"another secret":            func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b")} },
		"another carriage":          func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"another network factor":    func(cfg *middleware.Config) { cfg.Net56Factor = 2 },
		"no memory, and then again": func(cfg *middleware.Config) { cfg.InsecureNoMemory = true },
	} {
		t.Run(name, func(t *testing.T) {
			changed := cfg
			change(&changed)
			require.NoError(t, h.M.Reconfigure(changed))
			if changed.InsecureNoMemory {
				require.Equal(t, 10, admitted(h, 10))
				require.NoError(t, h.M.Reconfigure(cfg))
			}
			require.Equal(t, 0, admitted(h, 10), "what was counted stays")
		})
	}
}

func TestReconfigureChangesEverythingElse(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	cfg.Quiet, cfg.Limits[0].Quota, cfg.InsecureCookie = true, 1, true
	decisions := record(&cfg)
	require.NoError(t, h.M.Reconfigure(cfg))
	resp := send(h)
	require.Empty(t, resp.Header.Get("RateLimit"))
	require.Equal(t, "tallystick-contact", cookieIn(resp).Name)
	require.Equal(t, "contact", decisions.Last().Policy)
	require.Equal(t, 0, admitted(h, 3))
}

func TestFaultyReconfigureChangesNothing(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	spend(t, h, 2)
	bad := cfg
	bad.Limits, bad.Policy, bad.MaxClients = nil, "", 2048
	require.Equal(t, []string{"Policy", "Limits", "MaxClients"}, problems(t, h.M.Reconfigure(bad)))

	bad = cfg
	bad.Policy = "other"
	require.Equal(t, []string{"Policy"}, problems(t, h.M.Reconfigure(bad)), "tokens are made out to it")
	require.ErrorContains(t, h.M.Reconfigure(bad), `is "contact" and cannot change`)

	bad = cfg
	bad.MaxClients = 2048
	require.Equal(t, []string{"MaxClients"}, problems(t, h.M.Reconfigure(bad)), "the memory cannot grow")
	bad.MaxClients = 0
	require.Error(t, h.M.Reconfigure(bad), "nor is the default the size that it has")
	require.Equal(t, `"contact";r=2;t=60`, send(h).Header.Get("RateLimit"))
}

// New copies what it is given.
func TestConfigIsCopied(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Minute)}}
	cfg.Identity = byTier(only(middleware.APIKey("k")))
	h, _ := limited(t, cfg)
	tok := spend(t, h, 1)
	cfg.Limits[0].Quota = 1000
	cfg.Tiers["pro"][0].Quota = 1000
	delete(cfg.Tiers, "pro")
	clear(cfg.Secrets[0])
	require.Equal(t, `"contact";r=3;t=60`, send(h, showing(tok)).Header.Get("RateLimit"))
	require.Equal(t, `"contact";q=9;w=60`, send(h, with("Tier", "pro")).Header.Get("RateLimit-Policy"))
}

// The configuration changes under load: every request is decided by one or the
// other, and none is counted twice or not at all.
func TestReconfigureWhileServing(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 100
	m := newLimiter(t, cfg)
	s := new(spy)
	h := m.Handler(s)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			tok := ""
			for range 60 {
				if fresh := tokenIn(send(h, showing(tok))); fresh != "" {
					tok = fresh
				}
			}
		})
	}
	group.Go(func() {
		for i := range 50 {
			changed := cfg
			changed.Secrets = [][][]byte{{secret("a")}, {secret("b"), secret("a")}}[i%2]
			changed.TokenTransport = middleware.TokenTransport(i % 4)
			if err := m.Reconfigure(changed); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	require.EqualValues(t, 100, s.Calls.Load())
}

// A limit that is gone leaves its cells to those that come. If it comes back it is a new
// one; the others have kept what they had counted.
func TestALimitThatWasGoneBeginsAnew(t *testing.T) {
	cfg := contact(new(clock))
	short := middleware.Limit{Name: "short", Quota: 5, Window: time.Minute}
	long := middleware.Limit{Name: "long", Quota: 7, Window: time.Hour}
	cfg.Limits = []middleware.Limit{short, long}
	decisions := record(&cfg)
	m := newLimiter(t, cfg)
	h := m.Handler(new(spy))
	require.Equal(t, 3, admitted(h, 3))
	left := func() (left []int64) {
		for _, l := range decisions.Last().Limits() {
			left = append(left, l.Remaining)
		}
		return left
	}
	require.Equal(t, []int64{2, 4}, left())
	with := cfg
	for _, row := range []struct {
		limits []middleware.Limit
		left   []int64
	}{
		{[]middleware.Limit{long, short}, []int64{3, 1}},
		{[]middleware.Limit{long}, []int64{2}},
		{[]middleware.Limit{short, long}, []int64{4, 1}},
	} {
		with.Limits = row.limits
		require.NoError(t, m.Reconfigure(with))
		send(h)
		require.Equal(t, row.left, left())
	}
}

// Validate says what Reconfigure would say, in the same words, and changes nothing.
func TestValidateChangesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*middleware.Config)
		fields []string // that are wrong
	}{
		"nothing": {func(*middleware.Config) {}, nil},
		"what may change": {func(c *middleware.Config) {
			c.Limits, c.InsecureCookie = []middleware.Limit{{Quota: 1, Window: 60e9}}, true
		}, nil},
		"no memory":    {func(c *middleware.Config) { c.InsecureNoMemory, c.MaxClients = true, 7 }, nil},
		"a faulty one": {func(c *middleware.Config) { c.Limits, c.Secrets = nil, nil }, []string{"Limits", "Secrets"}},
		"another name": {func(c *middleware.Config) { c.Policy = "other" }, []string{"Policy"}},
		"another size": {func(c *middleware.Config) { c.MaxClients = 4096 }, []string{"MaxClients"}},
		"both":         {func(c *middleware.Config) { c.Limits, c.MaxClients = nil, 4096 }, []string{"Limits", "MaxClients"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			h := newSite(t, cfg)
			spend(t, h, 2)
			changed := cfg
			row.change(&changed)
			err := h.M.Validate(changed)
			if row.fields == nil {
				require.NoError(t, err)
			} else {
				require.Equal(t, row.fields, problems(t, err))
			}
			resp := requireStatus(t, http.StatusOK, send(h))
			require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"), "two were spent before")
			again := h.M.Reconfigure(changed)
			require.Equal(t, err == nil, again == nil)
			if err != nil {
				require.EqualError(t, again, err.Error())
			}
		})
	}
}
