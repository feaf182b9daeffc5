// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestReconfigure(t *testing.T) {
	short := middleware.Limit{Name: "short", Quota: 5, Window: time.Minute}
	long := middleware.Limit{Name: "long", Quota: 7, Window: time.Hour}
	noMemory := func(without bool) change { return func(cfg *middleware.Config) { cfg.InsecureNoMemory = without } }
	play(t, []scenario{
		{"what was counted stays", limiting(), []step{
			{times: 10, passes: 5},
			{do: becomes(signedBy("b")), times: 10}, {do: becomes(signedBy("a")), times: 10},
			{do: becomes(func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }), times: 10},
			{do: becomes(func(cfg *middleware.Config) { cfg.Net56Factor = 2 }), times: 10},
			{do: becomes(noMemory(true)), times: 10, passes: 10}, {do: becomes(noMemory(false)), times: 10},
		}},
		{"everything else is as the new one says", limiting(), []step{
			{do: becomes(func(cfg *middleware.Config) { cfg.Quiet, cfg.Limits[0].Quota, cfg.InsecureCookie = true, 1, true }), want: 200,
				fields: fields{"RateLimit": ""}, see: all{func(s *scene) {
					require.Equal(s, "tallystick-contact", cookieIn(s.last).Name)
					require.Equal(s, "contact", s.decision().Policy)
				}}},
			{times: 3},
		}},
		// A limit that is gone leaves its cells to those that come. The others have kept what they had counted.
		{"a limit that was gone begins anew", limiting(limits(short, long)), []step{
			{times: 3, want: 200, see: all{remain(2, 4)}},
			{do: becomes(limits(long, short)), want: 200, see: all{remain(3, 1)}},
			{do: becomes(limits(long)), want: 200, see: all{remain(2)}},
			{do: becomes(limits(short, long)), want: 200, see: all{remain(4, 1)}},
		}},
		{"what was sold, opened and spent is kept", working(middleware.Newcomers), []step{
			{as: toFetch, want: 200, keep: "offer"}, {do: buys("own"), show: "own", times: 3, want: 200},
			{as: toRedeem, prove: "offer", want: 200},
			{do: becomes(signedBy("next", "a"), limits(fixed(7, time.Minute))), as: toFetch, want: 200, see: all{work(32)}},
			{as: toRedeem, prove: "offer", want: 200}, {as: toFetch, want: 200, see: all{work(32)}}, // held, at whatever price
			{show: "own", times: 9, passes: 4}, // of its new quota
			{do: becomes(func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }), want: 403, keep: "single"},
			{prove: "single", times: 2, passes: 1}, {do: becomes(), prove: "single", times: 2},
		}},
		{"a secret is rotated while serving", limiting(), []step{
			{times: 3, show: latest, want: 200, keep: "old"},
			{do: becomes(signedBy("b", "a")), show: "old", want: 200, fields: fields{"RateLimit": `"contact";r=1;t=60`}, see: all{func(s *scene) {
				require.NotEqual(s, s.tokens["old"][:64], tokenIn(s.last)[:64], "signed by the new one")
			}}},
		}},
	})
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

	// Nor does it look at maps for what is compiled later: a program makes several policies of one Config.
	cfg = inTokens(contact(new(clock)))
	own := slices.Clone(cfg.Limits)
	own[0].Quota = 7
	cfg.Identity = byTier(only(middleware.APIKey("k")))
	cfg.Tiers = map[string][]middleware.Limit{"pro": cfg.Limits}
	cfg.Concurrency = &middleware.Concurrency{Max: 1, Tiers: map[string]int{"pro": 2}}
	cfg.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) { return own, nil }}
	m := newLimiter(t, cfg)
	delete(cfg.Units, "tokens")
	delete(cfg.Concurrency.Tiers, "pro")
	inner := m.Handler(new(spy))
	resp := requireStatus(t, http.StatusOK, send(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requireStatus(t, http.StatusOK, send(inner, with("Tier", "pro"), inputs(60)))
	})), with("Tier", "pro"), inputs(30)))
	require.Equal(t, `"requests";q=7;w=60, "tokens";q=100;w=60;qu="tokens"`, resp.Header.Get("RateLimit-Policy"))
	require.Equal(t, []int64{5, 10}, unitsLeft(t, m, with("Tier", "pro")))
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
