// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// A structured item is one member of a RateLimit or RateLimit-Policy field.
type item struct {
	name   string
	params map[string]int64
}

// structured parses a field by RFC 9651: a List of Strings with Integer parameters, and nothing else.
func structured(t testing.TB, lines []string, permitted ...string) (all []item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	require.NoError(t, err, lines)
	for _, member := range list {
		parsed, ok := member.(httpsfv.Item)
		require.True(t, ok)
		name, ok := parsed.Value.(string)
		require.True(t, ok, "a String, not a Token as in older drafts")
		it := item{name, map[string]int64{}}
		for _, key := range parsed.Params.Names() {
			require.Contains(t, permitted, key)
			value, _ := parsed.Params.Get(key)
			number, ok := value.(int64)
			require.True(t, ok)
			require.GreaterOrEqual(t, number, int64(0))
			it.params[key] = number
		}
		all = append(all, it)
	}
	return all
}

// requireFields checks the fields of a response, open and with tokens, against the draft and against each other.
func requireFields(t testing.TB, resp *http.Response, limits int) {
	t.Helper()
	policies := structured(t, resp.Header.Values("RateLimit-Policy"), "q", "w")
	standing := structured(t, resp.Header.Values("RateLimit"), "r", "t")
	require.Len(t, policies, limits)
	require.Len(t, standing, limits)
	wait := int64(0)
	if resp.StatusCode == http.StatusTooManyRequests {
		var err error
		wait, err = strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, wait, int64(1))
	} else {
		require.Empty(t, resp.Header.Values("Retry-After"))
	}
	for i, policy := range policies {
		require.Equal(t, policy.name, standing[i].name)
		require.Contains(t, policy.params, "q")
		require.GreaterOrEqual(t, policy.params["w"], int64(1))
		require.Contains(t, standing[i].params, "r")
		require.LessOrEqual(t, standing[i].params["r"], policy.params["q"])
		reset, said := standing[i].params["t"]
		require.True(t, !said || reset >= 1)
		if wait > 0 && said {
			require.GreaterOrEqual(t, wait, reset, "Retry-After should not lie before t")
			require.LessOrEqual(t, wait, int64(1)<<30)
		}
	}
	if tok := tokenIn(resp); tok != "" {
		parsed, err := httpsfv.UnmarshalItem([]string{tok})
		require.NoError(t, err)
		require.Equal(t, httpsfv.Token(tok), parsed.Value, "a bare sf-token, no parameters")
		require.Empty(t, parsed.Params.Names())
		require.LessOrEqual(t, len(tok), 512)
	}
}

func TestFieldsAreStructured(t *testing.T) {
	r, refused := random(1), 0
	for range 15 {
		now := new(clock)
		cfg := contact(now)
		cfg.Cost = costOf
		cfg.Limits = nil
		for i := range 1 + r.IntN(4) {
			limit := middleware.Limit{
				Name:      "limit-" + strconv.Itoa(i),
				Algorithm: storeless.Algorithm(r.IntN(4)),
				Quota:     1 + r.Int64N(20),
				Window:    time.Duration(1+r.IntN(100)) * time.Second,
			}
			if limit.Algorithm == middleware.TokenBucket {
				limit.Burst = 1 + r.Int64N(30)
			}
			cfg.Limits = append(cfg.Limits, limit)
		}
		h, _ := limited(t, cfg)
		tok := ""
		for range 60 {
			now.Advance(time.Duration(r.Int64N(int64(10 * time.Second))))
			resp := send(h, showing(tok), costing(r.Int64N(4)), method([]string{"GET", "POST"}[r.IntN(2)]))
			requireFields(t, resp, len(cfg.Limits))
			if resp.StatusCode == http.StatusTooManyRequests {
				refused++
			}
			if fresh := tokenIn(resp); fresh != "" {
				tok = fresh
			}
		}
	}
	require.Greater(t, refused, 150, "the workload refuses")
}

// What Retry-After says is true: a second before the wait that it was made of,
// the request is refused; at its time it passes.
func TestRetryAfterIsTrue(t *testing.T) {
	for _, limit := range []middleware.Limit{
		{Quota: 7, Window: 100 * time.Second},
		{Quota: 7, Window: 100 * time.Second, Algorithm: middleware.FixedWindow},
		{Quota: 7, Window: 100 * time.Second, Algorithm: middleware.TokenBucket},
		{Quota: 7, Window: 100 * time.Second, Algorithm: storeless.LeakyBucket},
		{Quota: 1, Window: 36 * time.Hour, Algorithm: middleware.TokenBucket},
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			cfg.Limits = []middleware.Limit{limit}
			h, _ := limited(t, cfg)
			now.Advance(13*time.Second + 500*time.Millisecond)
			admitted(h, 20)

			least, most := int64(1)<<62, int64(0)
			var wait int64
			for range 1000 {
				resp := send(h)
				retry, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64)
				require.NoError(t, err)
				wait = structured(t, resp.Header.Values("RateLimit"), "r", "t")[0].params["t"]
				least, most = min(least, retry), max(most, retry)
			}
			require.Equal(t, wait, least, "without jitter")
			require.Equal(t, wait+min(wait/10, 30), most, "with all of it, in 1000 attempts")

			now.Advance(time.Duration(wait-1) * time.Second)
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			now.Advance(time.Second)
			require.Equal(t, http.StatusOK, send(h).StatusCode)
		})
	}
}

func TestFieldsAreApart(t *testing.T) {
	s := &spy{Serve: func(w http.ResponseWriter, _ *http.Request) {
		for name := range w.Header() {
			w.Header().Add(name, "added")
		}
	}}
	h := newLimiter(t, contact(new(clock))).Handler(s)
	resp := send(h, method(http.MethodPost))
	require.Equal(t, []string{`"contact";q=5;w=60`, "added"}, resp.Header.Values("RateLimit-Policy"))
	require.Equal(t, []string{`"contact";r=4;t=60`, "added"}, resp.Header.Values("RateLimit"))
	require.Equal(t, []string{"no-store", "added"}, resp.Header.Values("Cache-Control"))
	require.Len(t, tokenIn(resp), len(cookieIn(resp).Value))
}

// A handler that edits the values it finds must not change a later response.
func TestFieldsAreNotShared(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		s := &spy{Serve: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			for name := range w.Header() {
				w.Header()[name][0] = "edited"
			}
		}}
		h := newLimiter(t, contact(new(clock))).Handler(s)
		for i := range 3 {
			resp := send(h, method(m))
			require.Equal(t, `"contact";q=5;w=60`, resp.Header.Get("RateLimit-Policy"))
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"), i)
		}
	}
}

func TestRefusalVariesToo(t *testing.T) {
	h, _ := limited(t, contact(new(clock)))
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(w, r)
	})
	exhaust(t, outer)
	require.Equal(t, []string{"Origin", "Accept"}, send(outer).Header.Values("Vary"))
}
