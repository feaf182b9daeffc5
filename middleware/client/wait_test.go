// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// In a bubble the clock starts at midnight of 1 January 2000.
func TestRetryAfter(t *testing.T) {
	date := func(d time.Duration) string {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for name, c := range map[string]struct {
		maxWait time.Duration
		fields  []string
		want    time.Duration // zero: returned at once
		reason  string
	}{
		"seconds":               {0, []string{"Retry-After", "7"}, 7 * time.Second, ""},
		"at the default cap":    {0, []string{"Retry-After", "30"}, 30 * time.Second, ""},
		"beyond it":             {0, []string{"Retry-After", "31"}, 0, waitTooLong},
		"at a cap":              {2 * time.Minute, []string{"Retry-After", "120"}, 2 * time.Minute, ""},
		"beyond a cap":          {2 * time.Minute, []string{"Retry-After", "121"}, 0, waitTooLong},
		"never":                 {-1, []string{"Retry-After", "1"}, 0, waitTooLong},
		"zero":                  {0, []string{"Retry-After", "0"}, time.Second, ""},
		"31 years":              {0, []string{"Retry-After", "999999999"}, 0, waitTooLong},
		"31 years, cap as high": {1<<63 - 1, []string{"Retry-After", "999999999"}, 999999999 * time.Second, ""},
		"more than 64 bits":     {0, []string{"Retry-After", "99999999999999999999"}, 0, waitTooLong},
		"negative":              {0, []string{"Retry-After", "-1"}, 0, noAdvice},
		"signed":                {0, []string{"Retry-After", "+1"}, 0, noAdvice},
		"fraction":              {0, []string{"Retry-After", "1.5"}, 0, noAdvice},
		"words":                 {0, []string{"Retry-After", "soon"}, 0, noAdvice},
		"empty":                 {0, []string{"Retry-After", ""}, 0, noAdvice},
		"none":                  {0, nil, 0, noAdvice},
		"date":                  {0, []string{"Retry-After", date(9 * time.Second)}, 9 * time.Second, ""},
		"date, with a Date":     {0, []string{"Retry-After", date(time.Hour), "Date", date(time.Hour - 9*time.Second)}, 9 * time.Second, ""},
		"date, with a bad Date": {0, []string{"Retry-After", date(9 * time.Second), "Date", "today"}, 9 * time.Second, ""},
		"date gone by":          {0, []string{"Retry-After", date(-time.Hour)}, time.Second, ""},
		"date of another world": {0, []string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, 0, waitTooLong},
		"date not in GMT":       {0, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 CET"}, 0, noAdvice},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, requests := script(answer(429, c.fields...), answer(200))
				var seen events
				tr := &Transport{Base: inMemory{h}, MaxWait: c.maxWait, Observe: seen.observe}
				start := time.Now()
				resp := get(t, tr, "http://example.com")
				took := time.Since(start)
				if c.reason != "" {
					require.Equal(t, 429, resp.StatusCode)
					require.Zero(t, took)
					require.Equal(t, 1, requests())
					require.Equal(t, []string{"returning " + string(c.reason)}, seen.actions())
					return
				}
				require.Equal(t, 200, resp.StatusCode)
				require.GreaterOrEqual(t, took, c.want)
				require.LessOrEqual(t, took, c.want+min(c.want/10, 3*time.Second))
				require.Equal(t, []string{"waiting"}, seen.actions())
				require.Equal(t, took, seen.all[0].Wait)
				if c.maxWait > 0 {
					require.LessOrEqual(t, took, c.maxWait)
				}
			})
		})
	}
}

func TestJitter(t *testing.T) {
	distinct := map[time.Duration]bool{}
	for range 200 {
		d := jitter(10*time.Second, time.Hour)
		require.GreaterOrEqual(t, d, 10*time.Second)
		require.Less(t, d, 11*time.Second)
		distinct[d] = true
		require.Less(t, jitter(time.Hour, 2*time.Hour), time.Hour+3*time.Second)
		require.LessOrEqual(t, jitter(10*time.Second, 10*time.Second+5), 10*time.Second+5)
	}
	require.Greater(t, len(distinct), 100)
	require.Equal(t, time.Second, jitter(time.Second, time.Second))
}

// The waits of one request add up.
func TestMaxWaitIsInAll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, requests := script(answer(429, "Retry-After", "12"))
		tr := &Transport{Base: inMemory{h}}
		start := time.Now()
		require.Equal(t, 429, get(t, tr, "http://example.com").StatusCode)
		require.Equal(t, 3, requests(), "12 and 12 seconds fit into 30")
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
	})
}

func TestMaxAttempts(t *testing.T) {
	for limit, want := range map[int]int{0: 5, 1: 1, 2: 2, -1: 1, 9: 9} {
		kit.Bubble(t, func(t *testing.T) {
			h, requests := script(answer(429, "Retry-After", "1"))
			var seen events
			tr := &Transport{Base: inMemory{h}, MaxAttempts: limit, Observe: seen.observe}
			require.Equal(t, 429, get(t, tr, "http://example.com").StatusCode)
			require.Equal(t, want, requests())
			last := seen.all[len(seen.all)-1]
			require.Equal(t, noMoreAttempts, last.Reason)
			require.Equal(t, want, last.Attempt)
		})
	}
}

// Which responses are taken for "not processed".
func TestOnlyRefusalsAreSentAgain(t *testing.T) {
	const retry = "Retry-After"
	for name, c := range map[string]struct {
		method string
		first  http.HandlerFunc
		again  bool
		events []string
	}{
		"429 to a POST":                 {"POST", answer(429, retry, "1"), true, []string{"waiting"}},
		"503 to a GET":                  {"GET", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 without a time":            {"GET", answer(503), false, nil},
		"503 to a PUT":                  {"PUT", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 to a DELETE":               {"DELETE", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 to a POST":                 {"POST", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 to a PATCH":                {"PATCH", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 to a method of his own":    {"LOCK", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 with a challenge":          {"POST", answer(503, retry, "1", pow.ChallengeField, "x"), false, []string{"returning maybe-processed"}},
		"403":                           {"GET", answer(403), false, nil},
		"403 with a time":               {"GET", answer(403, retry, "1"), false, nil},
		"403, challenge cannot be read": {"GET", answer(403, pow.ChallengeField, "x", retry, "1"), false, []string{"returning bad-challenge"}},
		"429, challenge cannot be read": {"GET", answer(429, pow.ChallengeField, "x", retry, "1"), true, []string{"waiting"}},
		"500 with a time":               {"GET", answer(500, retry, "1"), false, nil},
		"301 with a time":               {"GET", answer(301, retry, "1"), false, nil},
		"200 with a challenge":          {"GET", answer(200, pow.ChallengeField, "x", retry, "1"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, requests := script(c.first, answer(200))
				var seen events
				tr := &Transport{Base: inMemory{h}, Observe: seen.observe}
				req := request(t, c.method, "http://example.com", nil)
				do(t, tr, req)
				require.Equal(t, c.again, requests() == 2)
				require.Equal(t, c.events, seen.actions())
			})
		})
	}
}

func TestContextEndsAWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, requests := script(answer(429, "Retry-After", "20"))
		tr := &Transport{Base: inMemory{h}}
		why := errors.New("the user went home")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil)
		require.NoError(t, err)
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		require.Nil(t, resp)
		require.ErrorIs(t, err, why)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 1, requests())
	})
}

// What cannot be over before the deadline is not begun.
func TestDeadlineBeforeTheWaitEnds(t *testing.T) {
	for timeout, want := range map[time.Duration]int{4 * time.Second: 429, 5 * time.Second: 429, 5*time.Second + 1: 200} {
		kit.Bubble(t, func(t *testing.T) {
			h, _ := script(answer(429, "Retry-After", "5"), answer(200))
			c := &http.Client{Transport: &Transport{Base: inMemory{h}}, Timeout: timeout}
			start := time.Now()
			resp, err := c.Get("http://example.com")
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
			if want == 429 {
				require.Zero(t, time.Since(start))
			}
			require.NoError(t, resp.Body.Close())
		})
	}
}
