// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

const anything, planted = "*", "planted"

type step struct {
	after   time.Duration
	request []option
	status  int
	retry   int               // Retry-After before jitter; 0: must not be sent
	header  map[string]string // exact, anything, or "" for none
}

type scenario struct {
	name   string
	config func(*middleware.Config)
	steps  []step
}

// run plays a scenario and checks what holds for every response.
func (s scenario) run(t *testing.T, httpMethod string) {
	now := new(clock)
	cfg := contact(now)
	if s.config != nil {
		s.config(&cfg)
	}
	decisions := record(&cfg)
	inner, spy := limited(t, cfg)
	h, passed := hostile(inner), 0
	for i, step := range s.steps {
		now.Advance(step.after)
		resp := send(h, append([]option{method(httpMethod)}, step.request...)...)
		at := fmt.Sprintf("request %d", i+1)
		require.Equal(t, step.status, resp.StatusCode, at)
		if step.status == http.StatusOK {
			passed++
		}
		require.EqualValues(t, passed, spy.Calls.Load(), at)
		for name, want := range step.header {
			if want == anything {
				require.NotEmpty(t, resp.Header.Get(name), "%s: %s", at, name)
				require.NotEqual(t, planted, resp.Header.Get(name), "%s: %s", at, name)
			} else {
				require.Equal(t, want, resp.Header.Get(name), "%s: %s", at, name)
			}
			require.LessOrEqual(t, len(resp.Header.Values(name)), 1, "%s: %s", at, name)
		}
		requireRetry(t, resp, step.retry)
		require.Contains(t, resp.Header.Values("Set-Cookie"), "session=1", at)
		require.Contains(t, resp.Header.Values("Vary"), "Origin", at)
		stored := "private, max-age=600" // as it was before
		if resp.StatusCode != http.StatusOK {
			stored = "no-store"
		}
		require.Equal(t, []string{stored}, resp.Header.Values("Cache-Control"), at)
	}
	require.Len(t, decisions.All, len(s.steps), "OnDecision is called once for each request")
}

func limits(all ...middleware.Limit) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Limits = all }
}

// ok and no are the steps of most scenarios: what RateLimit says, and the wait.
func ok(rateLimit string) step {
	return step{status: 200, header: map[string]string{"RateLimit": rateLimit, middleware.TokenHeader: anything}}
}

func no(rateLimit string, retry int) step {
	return step{status: 429, retry: retry, header: map[string]string{"RateLimit": rateLimit, middleware.TokenHeader: planted}}
}

func (s step) later(d time.Duration) step     { s.after = d; return s }
func (s step) asking(options ...option) step  { s.request = options; return s }
func (s step) expect(name, value string) step { s.header[name] = value; return s }

func TestAlgorithms(t *testing.T) {
	play(t, []scenario{
		{"fixed window", nil, []step{
			ok(`"contact";r=4;t=60`).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=3;t=60`), ok(`"contact";r=2;t=60`), ok(`"contact";r=1;t=60`),
			ok(`"contact";r=0;t=30`).later(30 * time.Second),
			no(`"contact";r=0;t=30`, 30).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=4;t=60`).later(30 * time.Second),
		}},
		{"sliding window", limits(middleware.Limit{Quota: 5, Window: time.Minute}), []step{
			// Five of the window before weigh 5·(60−e)/60: after 12 s, four.
			ok(`"contact";r=4;t=120`), ok(`"contact";r=3;t=90`), ok(`"contact";r=2;t=80`),
			ok(`"contact";r=1;t=75`), ok(`"contact";r=0;t=72`),
			no(`"contact";r=0;t=72`, 72),
			no(`"contact";r=0;t=1`, 1).later(71 * time.Second),
			ok(`"contact";r=0;t=12`).later(time.Second),
		}},
		{"token bucket", limits(middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2}), []step{
			ok(`"contact";r=1;t=1`).expect("RateLimit-Policy", `"contact";q=2;w=2`),
			ok(`"contact";r=0;t=1`),
			no(`"contact";r=0;t=1`, 1),
			ok(`"contact";r=0;t=1`).later(time.Second),
		}},
		{"leaky bucket", limits(middleware.Limit{Algorithm: storeless.LeakyBucket, Quota: 6, Window: time.Minute}), []step{
			ok(`"contact";r=0;t=10`).expect("RateLimit-Policy", `"contact";q=1;w=10`),
			no(`"contact";r=0;t=10`, 10),
			ok(`"contact";r=0;t=10`).later(10 * time.Second),
		}},
		{"several at once, all or nothing", limits(
			middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 2, Window: time.Minute},
			middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 3, Window: time.Hour},
		), []step{
			ok(`"contact";r=1;t=60, "contact-1h";r=2;t=3600`).expect("RateLimit-Policy", `"contact";q=2;w=60, "contact-1h";q=3;w=3600`),
			ok(`"contact";r=0;t=60, "contact-1h";r=1;t=3600`),
			// The hour is not charged by what the minute refuses, and gives no t that lies beyond Retry-After.
			no(`"contact";r=0;t=60, "contact-1h";r=1`, 60),
			ok(`"contact";r=1;t=60, "contact-1h";r=0;t=3540`).later(time.Minute),
			no(`"contact";r=1, "contact-1h";r=0;t=3540`, 3540),
		}},
	})
}

// play runs scenarios by a method whose responses are guarded and by one whose are not.
func play(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		for _, m := range []string{http.MethodPost, http.MethodGet} {
			t.Run(s.name+"/"+m, func(t *testing.T) { s.run(t, m) })
		}
	}
}
