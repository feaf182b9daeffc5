// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/storeless"
)

const planted = "planted" // by what is around

// playHostile plays scenarios inside of middleware that plants and edits fields, by a method whose responses are guarded
// and by one whose are not, and checks what holds for every response.
func playHostile(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		for _, m := range []string{http.MethodPost, http.MethodGet} {
			t.Run(s.name+"/"+m, func(t *testing.T) {
				requests, admitted := 0, 0
				in := &scene{T: t, around: handlers.Hostile, common: method(m)}
				in.each = func(s *scene, is step) {
					requests++
					for name := range is.fields {
						require.LessOrEqual(t, len(s.last.Header.Values(name)), 1, name)
					}
					handlers.RequireRetry(t, s.last, is.retry)
					require.Contains(t, s.last.Header.Values("Set-Cookie"), "session=1")
					require.Contains(t, s.last.Header.Values("Vary"), "Origin")
					stored := "private, max-age=600" // as it was before
					if s.last.StatusCode != http.StatusOK {
						stored = "no-store"
					}
					require.Equal(t, []string{stored}, s.last.Header.Values("Cache-Control"))
					require.Len(t, s.site.Decisions.All, requests, "OnDecision is called once for each request")
					admitted += boolToInt(s.last.StatusCode == http.StatusOK)
					passed(admitted)(s)
				}
				s.play(in)
			})
		}
	}
}

func limits(all ...middleware.Limit) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Limits = all }
}

// ok and no are the steps of most of them: what RateLimit says, and the wait.
func ok(rateLimit string) step {
	return step{want: 200, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: anything}}
}

func no(rateLimit string, retry int) step {
	return step{want: 429, retry: retry, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: planted}}
}

func (s step) later(d time.Duration) step     { s.after = d; return s }
func (s step) asking(o option) step           { s.as = o; return s }
func (s step) expect(name, value string) step { s.fields[name] = value; return s }

func TestAlgorithms(t *testing.T) {
	playHostile(t, []scenario{
		{"fixed window", limiting(), []step{
			ok(`"contact";r=4;t=60`).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=3;t=60`), ok(`"contact";r=2;t=60`), ok(`"contact";r=1;t=60`),
			ok(`"contact";r=0;t=30`).later(30 * time.Second),
			no(`"contact";r=0;t=30`, 30).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=4;t=60`).later(30 * time.Second),
		}},
		{"sliding window", limiting(limits(middleware.Limit{Quota: 5, Window: time.Minute})), []step{
			// Five of the window before weigh 5·(60−e)/60: after 12 s, four.
			ok(`"contact";r=4;t=120`), ok(`"contact";r=3;t=90`), ok(`"contact";r=2;t=80`),
			ok(`"contact";r=1;t=75`), ok(`"contact";r=0;t=72`),
			no(`"contact";r=0;t=72`, 72),
			no(`"contact";r=0;t=1`, 1).later(71 * time.Second),
			ok(`"contact";r=0;t=12`).later(time.Second),
		}},
		{"token bucket", limiting(limits(middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2})), []step{
			ok(`"contact";r=1;t=1`).expect("RateLimit-Policy", `"contact";q=2;w=2`),
			ok(`"contact";r=0;t=1`),
			no(`"contact";r=0;t=1`, 1),
			ok(`"contact";r=0;t=1`).later(time.Second),
		}},
		{"leaky bucket", limiting(limits(middleware.Limit{Algorithm: storeless.LeakyBucket, Quota: 6, Window: time.Minute})), []step{
			ok(`"contact";r=0;t=10`).expect("RateLimit-Policy", `"contact";q=1;w=10`),
			no(`"contact";r=0;t=10`, 10),
			ok(`"contact";r=0;t=10`).later(10 * time.Second),
		}},
		{"several at once, all or nothing", limiting(limits(fixed(2, time.Minute), fixed(3, time.Hour))), []step{
			ok(`"contact";r=1;t=60, "contact-1h";r=2;t=3600`).expect("RateLimit-Policy", `"contact";q=2;w=60, "contact-1h";q=3;w=3600`),
			ok(`"contact";r=0;t=60, "contact-1h";r=1;t=3600`),
			// The hour is not charged by what the minute refuses, and gives no t that lies beyond Retry-After.
			no(`"contact";r=0;t=60, "contact-1h";r=1`, 60),
			ok(`"contact";r=1;t=60, "contact-1h";r=0;t=3540`).later(time.Minute),
			no(`"contact";r=1, "contact-1h";r=0;t=3540`, 3540),
		}},
	})
}
