// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place before the end of a pause is booked anew if the pause became known meanwhile, or if
// the counter does not know of it; else it is good at the end.
func TestPlacesBeforeTheEndOfAPause(t *testing.T) {
	told := time.Unix(1_800_000_000, 0)
	end := told.Add(10 * time.Second)
	for name, c := range map[string]struct {
		asked, moment time.Duration // since told
		good          bool
		moves, untold bool
	}{
		"behind it":                 {-1, 10 * time.Second, true, false, false},
		"asked for before":          {-1, 10*time.Second - 1, false, false, false},
		"a little before":           {0, 10*time.Second - early, true, true, false},
		"as the counter cannot say": {0, 10*time.Second - early - 1, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue{paused: end, told: told}
			pl := &place{asked: told.Add(c.asked), moment: told.Add(c.moment)}
			require.Equal(t, c.good, q.behindPause(pl))
			require.Equal(t, c.untold, q.untold)
			require.Equal(t, c.moves, !pl.moment.Equal(told.Add(c.moment)))
			require.False(t, c.good && pl.moment.Before(end))
		})
	}
}

func TestWhatResponsesSay(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	type fields = map[string]string
	for name, c := range map[string]struct {
		status int
		fields fields
		want   time.Duration
	}{
		"nothing":                     {200, nil, 0},
		"a refusal that says nothing": {429, nil, time.Second},
		"a failure that says nothing": {503, nil, 0},
		"another failure":             {500, fields{"Retry-After": "7"}, 0},
		"a redirection":               {301, fields{"Retry-After": "7"}, 0},
		"not a refusal":               {200, fields{"Retry-After": "7"}, 0},
		"seconds":                     {429, fields{"Retry-After": "7"}, 7 * time.Second},
		"seconds, unavailable":        {503, fields{"Retry-After": "120"}, 2 * time.Minute},
		"too many seconds":            {429, fields{"Retry-After": "86400"}, time.Hour},
		"a fraction":                  {429, fields{"Retry-After": "1.5"}, time.Second},
		"a date":                      {429, fields{"Retry-After": "Sun, 22 Nov 2026 12:00:30 GMT"}, 30 * time.Second},
		"a far date":                  {503, fields{"Retry-After": "Sun, 22 Nov 2099 12:00:30 GMT"}, time.Hour},

		"nothing left":             {200, fields{"RateLimit": `"default";r=0;t=30`}, 30 * time.Second},
		"something left":           {200, fields{"RateLimit": `"default";r=5;t=30`}, 0},
		"one of two":               {200, fields{"RateLimit": `"second";r=3;t=1, "day";r=0;t=600`}, 10 * time.Minute},
		"both":                     {200, fields{"RateLimit": `"second";r=0;t=1 , "day";r=0;t=600`}, 10 * time.Minute},
		"no time":                  {200, fields{"RateLimit": `"default";r=0`}, 0},
		"a malformed list":         {200, fields{"RateLimit": `"a";r=0;t=50, b`}, 0},
		"Retry-After counts":       {429, fields{"Retry-After": "7", "RateLimit": `"default";r=0;t=30`}, 7 * time.Second},
		"a refusal by a field":     {429, fields{"RateLimit": `"default";r=0;t=30`}, 30 * time.Second},
		"a failure, by a field":    {503, fields{"RateLimit": `"default";r=0;t=4`}, 4 * time.Second},
		"a refusal with some left": {429, fields{"RateLimit": `"default";r=2;t=30`}, time.Second},

		"no requests left":  {200, fields{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 120 * time.Millisecond},
		"no tokens left":    {200, fields{"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "9s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 6 * time.Minute},
		"neither":           {429, fields{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "9s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}, 9 * time.Second},
		"seconds to go":     {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"}, 7 * time.Second},
		"parts of seconds":  {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0.25"}, 250 * time.Millisecond},
		"Unix seconds":      {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795348830"}, 30 * time.Second},
		"Unix milliseconds": {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795348830000"}, 0},
		"a second of old":   {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000000007"}, 0},
		"a day":             {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "86400"}, time.Hour},
		"no reset":          {200, fields{"X-RateLimit-Remaining": "0"}, 0},
		"another's reset":   {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-Tokens": "7"}, 0},
		"not a number":      {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "NaN"}, 0},
		"below nothing":     {200, fields{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "-7s"}, 0},
		"a little left":     {200, fields{"X-RateLimit-Remaining": "0.5", "X-RateLimit-Reset": "7"}, 0},
		"words":             {200, fields{"X-RateLimit-Remaining": "none", "X-RateLimit-Reset": "soon"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range c.fields {
				h.Set(k, v)
			}
			require.Equal(t, c.want, retryAfter(now, &http.Response{StatusCode: c.status, Header: h}))
		})
	}
}

// No response can make it panic, or pause for longer than is believed.
func FuzzWhatResponsesSay(f *testing.F) {
	for _, s := range []string{"7", `"default";r=0;t=30`, "6m0s", "Sun, 22 Nov 2026 12:00:30 GMT", `"\`, "1e300", "-1"} {
		f.Add(s, s, s, 429)
	}
	f.Fuzz(func(t *testing.T, after, limit, reset string, status int) {
		h := http.Header{"Retry-After": {after}, "Ratelimit": {limit}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {reset}}
		wait := retryAfter(time.Unix(1795348800, 0), &http.Response{StatusCode: status, Header: h})
		if wait < 0 || wait > believed {
			t.Errorf("%s", wait)
		}
	})
}
