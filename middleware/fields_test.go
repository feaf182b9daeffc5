// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// ofLimits returns the fields of a response that tell of its limits, in small letters.
func ofLimits(h http.Header) map[string]string {
	told := map[string]string{}
	for name, lines := range h {
		name = strings.ToLower(name)
		if strings.Contains(name, "ratelimit") {
			told[name] = strings.Join(lines, ", ")
		}
	}
	return told
}

// A choice is one that clients of some kind understand, and what they are told.
type choice struct {
	name             string
	fields           middleware.Fields
	allowed, refused map[string]string
}

// choices are told of the policy of twoSpeeds, 10.5 s after midnight.
func choices() []choice {
	type fields = map[string]string
	return []choice{
		{"the default", 0,
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=1;t=50, "day";r=4;t=86390`},
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=0;t=50, "day";r=3`}},
		{"X-RateLimit alone", middleware.XRateLimitInSeconds,
			fields{"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"},
			fields{"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}},
		{"both", middleware.RateLimitFields | middleware.XRateLimitInSeconds,
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=1;t=50, "day";r=4;t=86390`,
				"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"},
			fields{"ratelimit-policy": `"minute";q=2;w=60, "day";q=5;w=86400`, "ratelimit": `"minute";r=0;t=50, "day";r=3`,
				"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}},
	}
}

// twoSpeeds is a policy of two requests a minute and five a day. The day comes last, and is not the tightest.
func twoSpeeds(chosen middleware.Fields) middleware.Config {
	now := new(clock)
	now.Advance(10*time.Second + 500*time.Millisecond)
	cfg := contact(now)
	cfg.Fields = chosen
	cfg.Limits = []middleware.Limit{
		{Name: "minute", Algorithm: middleware.FixedWindow, Quota: 2, Window: time.Minute},
		{Name: "day", Algorithm: middleware.FixedWindow, Quota: 5, Window: 24 * time.Hour},
	}
	return cfg
}

// Each choice sends its own fields, letter for letter, and no other.
func TestChoicesOfFields(t *testing.T) {
	for _, c := range choices() {
		for _, verb := range []string{http.MethodPost, http.MethodGet} {
			t.Run(c.name+", "+verb, func(t *testing.T) {
				h, _ := limited(t, twoSpeeds(c.fields))
				resp := send(h, method(verb))
				require.Equal(t, c.allowed, ofLimits(resp.Header))
				require.NotEmpty(t, tokenIn(resp), "the token goes with any of them")
				require.Equal(t, 1, admitted(h, 1, method(verb)))
				resp = requireStatus(t, 429, send(h, method(verb)))
				require.Equal(t, c.refused, ofLimits(resp.Header))
				require.NotEmpty(t, resp.Header.Get("Retry-After"))
			})
		}
	}
}

// What a choice sends is what scripts of other origins may read.
func TestCORSFollowsTheChoice(t *testing.T) {
	for _, c := range choices() {
		t.Run(c.name, func(t *testing.T) {
			exposed := middleware.CORSExposeHeaders(c.fields)
			for name := range c.allowed {
				require.True(t, contains(exposed, name), name)
			}
			fixed := []string{"Tallystick-Token", "Tallystick-Challenge", "Retry-After", "Tallystick-Degraded"}
			require.Len(t, exposed, len(fixed)+len(c.allowed), "and no other")
			require.Subset(t, exposed, fixed)
		})
	}
	t.Run("of several policies", func(t *testing.T) {
		require.Equal(t, []string{
			"Tallystick-Token", "Tallystick-Challenge", "RateLimit", "RateLimit-Policy",
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Tallystick-Degraded",
		}, middleware.CORSExposeHeaders(0, middleware.XRateLimitInSeconds))
	})
}

func TestQuietHidesEveryChoice(t *testing.T) {
	for _, c := range choices() {
		cfg := twoSpeeds(c.fields)
		cfg.Quiet = true
		h, _ := limited(t, cfg)
		for range 3 {
			require.Empty(t, ofLimits(send(h).Header), c.name)
		}
	}
}

// A limit on trial is in no field, whatever the choice, and wherever it stands.
func TestShadowsAreInNoChoice(t *testing.T) {
	trial := []middleware.Limit{
		{Name: "month", Algorithm: middleware.FixedWindow, Quota: 5, Window: 30 * 24 * time.Hour, Shadow: true},
		{Name: "second", Algorithm: middleware.FixedWindow, Quota: 1, Window: time.Second, Shadow: true},
	}
	for _, c := range choices() {
		for _, first := range []bool{true, false} {
			cfg := twoSpeeds(c.fields)
			if first {
				cfg.Limits = append(trial[:2:2], cfg.Limits...)
			} else {
				cfg.Limits = append(cfg.Limits, trial...)
			}
			h, _ := limited(t, cfg)
			require.Equal(t, c.allowed, ofLimits(send(h).Header), "%s, %v", c.name, first)
			require.Equal(t, 1, admitted(h, 1))
			require.Equal(t, c.refused, ofLimits(send(h).Header), "%s, %v", c.name, first)
		}
	}
}

// The guard sees to the fields of any choice: a header that was cleared gets them back, what
// the handler says itself stands, and what everybody may store has none.
func TestChoicesOnTheFinalResponse(t *testing.T) {
	for _, c := range choices() {
		for name, test := range map[string]struct {
			handle http.HandlerFunc
			want   map[string]string
		}{
			"cleared":     {func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) }, c.allowed},
			"an own word": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-RateLimit-Remaining", "17") }, said(c.allowed)},
			"public":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") }, map[string]string{}},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				h := newLimiter(t, twoSpeeds(c.fields)).Handler(test.handle)
				require.Equal(t, test.want, ofLimits(send(h).Header))
			})
		}
	}
}

// A hint before the response carries none of them, whatever the choice, and the response all.
func TestChoicesAfterAnEarlyHint(t *testing.T) {
	for _, c := range choices() {
		site := newLimiter(t, twoSpeeds(c.fields)).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
		}))
		srv := serve(t, site)
		hints := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			hints++
			require.Empty(t, ofLimits(http.Header(h)), c.name)
			return nil
		}}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, srv.URL, nil)
		require.NoError(t, err)
		resp, err := srv.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, hints)
		require.Equal(t, c.allowed, ofLimits(resp.Header), c.name)
	}
}

// said returns fields in which the handler has said a remaining of its own.
func said(told map[string]string) map[string]string {
	told = maps.Clone(told)
	told["x-ratelimit-remaining"] = "17"
	return told
}

// Of a stack, lists have a line for each policy; of single values the innermost stands.
func TestChoicesInAStack(t *testing.T) {
	for name, test := range map[string]struct {
		chosen middleware.Fields
		want   map[string]string
	}{
		"X-RateLimit": {middleware.XRateLimitInSeconds, map[string]string{"x-ratelimit-limit": "3", "x-ratelimit-remaining": "2", "x-ratelimit-reset": "60"}},
		"the default": {0, map[string]string{"ratelimit-policy": `"site";q=9;w=60, "page";q=3;w=60`, "ratelimit": `"site";r=8;t=60, "page";r=2;t=60`}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			outer, inner := contact(now), contact(now)
			outer.Policy, outer.Fields, outer.Limits = "site", test.chosen, []middleware.Limit{fixed(9, time.Minute)}
			inner.Policy, inner.Fields, inner.Limits = "page", test.chosen, []middleware.Limit{fixed(3, time.Minute)}
			for _, handle := range []http.HandlerFunc{
				func(http.ResponseWriter, *http.Request) {},
				func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()) },
			} {
				h := newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(handle))
				require.Equal(t, test.want, ofLimits(send(h).Header))
			}
		})
	}
}

// A reading is what the packages of npm make of a response.
type reading struct {
	Parsed *struct { // by ratelimit-header-parser; a NaN is null
		Limit, Used, Remaining, Reset *int64
	}
	Structured map[string]any // by structured-headers
}

// readInNode has the packages of npm read the fields of each response.
func readInNode(t *testing.T, now time.Time, responses []map[string]string) []reading {
	t.Helper()
	if _, err := os.Stat("testdata/parsers/node_modules/ratelimit-header-parser"); err != nil {
		kit.Unable(t, "there is no ratelimit-header-parser (.ci/need installs it, by npm)")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		kit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	asked, err := json.Marshal(map[string]any{"now": now.UnixMilli(), "responses": responses})
	require.NoError(t, err)
	cmd := exec.Command(node, "testdata/parsers/parse.mjs")
	var complaint strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), &complaint
	said, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	var read []reading
	require.NoError(t, json.Unmarshal(said, &read))
	require.Len(t, read, len(responses))
	return read
}

// What clients in JavaScript know understands us: ratelimit-header-parser reads every choice but RateLimitFields,
// which came after it and which it takes for an older draft; structured-headers reads all.
func TestNpmReadsEveryChoice(t *testing.T) {
	now := new(clock)
	now.Advance(10 * time.Second)
	var responses []map[string]string
	for _, c := range choices() {
		cfg := twoSpeeds(c.fields)
		cfg.Now = now.Now
		h := newSite(t, cfg)
		responses = append(responses, ofLimits(send(h).Header))
		require.Equal(t, 1, admitted(h, 1))
		responses = append(responses, ofLimits(send(h).Header))
	}
	read := readInNode(t, now.Now(), responses)
	for i, c := range choices() {
		for refused, got := range read[2*i : 2*i+2] {
			t.Run(c.name+[]string{", allowed", ", refused"}[refused], func(t *testing.T) {
				if c.fields == 0 || c.fields&middleware.RateLimitFields != 0 {
					require.NotNil(t, got.Parsed)
					require.Nil(t, got.Parsed.Limit, "the parser is from before these fields")
					require.Nil(t, got.Parsed.Remaining)
				} else {
					require.EqualValues(t, 2, *got.Parsed.Limit)
					require.EqualValues(t, 1+refused, *got.Parsed.Used)
					require.EqualValues(t, 1-refused, *got.Parsed.Remaining)
					require.EqualValues(t, 50, *got.Parsed.Reset)
				}
				require.Len(t, got.Structured, len(responses[2*i+refused]), "every field parses")
				left, sum := float64(1-refused), got.Structured
				for name, want := range map[string]any{
					"x-ratelimit-limit": 2.0, "x-ratelimit-remaining": left,
				} {
					if sum[name] != nil {
						require.Equal(t, want, sum[name], name)
					}
				}
				item := func(name any, params map[string]any) []any { return []any{name, params} }
				minute, day := map[string]any{"r": left, "t": 50.0}, map[string]any{"r": 3 + left}
				if refused == 0 {
					day["t"] = 86390.0
				}
				if c.fields == 0 || c.fields&middleware.RateLimitFields != 0 {
					require.Equal(t, []any{item("minute", minute), item("day", day)}, sum["ratelimit"])
					require.Equal(t, []any{
						item("minute", map[string]any{"q": 2.0, "w": 60.0}), item("day", map[string]any{"q": 5.0, "w": 86400.0}),
					}, sum["ratelimit-policy"])
				} else {
					require.NotContains(t, sum, "ratelimit")
				}
			})
		}
	}
}
