// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestNewcomerPaysOnce(t *testing.T) {
	for _, work := range []uint64{0, pow.MinWork, 4096} {
		l := newLimiter(t, "contact", newcomers, 3)
		l.work = work
		var seen events
		tr := &Transport{Base: inMemory{l}, Observe: seen.observe}
		for range 3 {
			require.Equal(t, 200, get(t, tr, "http://example.com/contact").StatusCode)
		}
		require.Equal(t, 1, l.proofs)
		require.Equal(t, 4, l.requests)
		require.Equal(t, []string{"solving"}, seen.actions())
		require.Equal(t, work, seen.all[0].Work)
		require.Equal(t, 403, seen.all[0].Status)
	}
}

// A spent token is shown, and beside it the client buys another.
func TestExhaustedClientBuysItsOwn(t *testing.T) {
	l := newLimiter(t, "contact", whenExhausted, 2)
	tr := &Transport{Base: inMemory{l}}
	for range 6 {
		require.Equal(t, 200, get(t, tr, "http://example.com/contact").StatusCode)
	}
	require.Equal(t, 2, l.proofs)
}

// Over the limit and a challenge too dear: the wait is the other way.
func TestWaitsWhereWorkIsTooDear(t *testing.T) {
	for name, tr := range map[string]*Transport{
		"too dear":       {MaxWork: 255},
		"never solve":    {MaxSolves: -1},
		"neither":        {MaxSolves: -1, MaxWait: 59 * time.Second},
		"dear, not wait": {MaxWork: 255, MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				l := newLimiter(t, "contact", whenExhausted, 1)
				var seen events
				if tr.MaxWait == 0 {
					tr.MaxWait = 70 * time.Second
				}
				tr.Base, tr.Observe, tr.MaxAttempts = inMemory{l}, seen.observe, 2
				require.Equal(t, 200, get(t, tr, "http://example.com/contact").StatusCode)
				require.Equal(t, 429, get(t, tr, "http://example.com/contact").StatusCode)
				require.Zero(t, l.proofs)
				if tr.MaxWait == 70*time.Second {
					require.Equal(t, []string{"waiting", "returning no-more-attempts"}, seen.actions())
				} else {
					require.Len(t, seen.all, 1)
					require.Contains(t, []string{tooMuchWork, noMoreSolves}, seen.all[0].Reason)
				}
			})
		})
	}
}

// The price has risen, or the challenge has expired: there is a fresh one, and
// another, and another.
func TestEndlessChallenges(t *testing.T) {
	for solves, want := range map[int]int{0: 3, 1: 1, 2: 2, -1: 0, 100: 4} {
		h, requests := script(asking(t, 64))
		var seen events
		tr := &Transport{Base: inMemory{h}, MaxSolves: solves, Observe: seen.observe}
		require.Equal(t, 403, get(t, tr, "http://example.com").StatusCode)
		require.Equal(t, want+1, requests())
		reason := noMoreSolves
		if solves == 100 {
			reason = noMoreAttempts
		}
		require.Equal(t, reason, seen.all[want].Reason)
	}
}

func TestHostileChallenges(t *testing.T) {
	issuer := kit.Must(pow.New(pow.Config{Secrets: [][]byte{secret}}))(t)
	issue := func(work uint64) string {
		c := kit.Must(issuer.Issue(time.Now(), pow.Binding{Client: []byte("c")}, work))(t)
		return c.Text
	}
	// change changes bytes of a challenge.
	change := func(text string, at int, bytes ...byte) string {
		raw := kit.Must(base64.RawURLEncoding.DecodeString(text))(t)
		copy(raw[at:], bytes)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	same := issue(16)
	bomb := strings.Repeat(issue(16)+",", 100)
	for name, c := range map[string]struct {
		lines  []string
		sends  int
		reason string
	}{
		"huge work":               {[]string{issue(pow.MaxWork)}, 1, tooMuchWork},
		"just too much":           {[]string{issue(1<<28 + 4)}, 1, tooMuchWork},
		"more than there is":      {[]string{change(same, 10, 255, 255, 255, 255)}, 1, tooMuchWork},
		"a price that lies":       {[]string{issue(pow.MaxWork) + ";work=16;ttl=10"}, 1, tooMuchWork},
		"no answer":               {[]string{change(same, 38, 1, 2, 3, 4, 5, 6)}, 1, badChallenge},
		"no time":                 {[]string{change(same, 8, 0, 0)}, 1, badChallenge},
		"the same again":          {[]string{same}, 2, badChallenge},
		"the same in other words": {[]string{" " + same + " ; work=4"}, 2, badChallenge},
		"bomb in one line":        {[]string{bomb}, 1, badChallenge},
		"bomb in many lines":      {strings.Split(strings.Repeat("x ", 10000)+same, " "), 1, badChallenge},
		"another version":         {[]string{change(same, 0, 9)}, 1, badChallenge},
		"empty":                   {[]string{""}, 1, badChallenge},
		"garbage first":           {[]string{"x", same}, 2, badChallenge},
	} {
		t.Run(name, func(t *testing.T) {
			h, requests := script(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()[pow.ChallengeField] = c.lines
				w.WriteHeader(403)
			})
			var seen events
			tr := &Transport{Base: inMemory{h}, Observe: seen.observe}
			require.Equal(t, 403, get(t, tr, "http://example.com").StatusCode)
			require.Equal(t, c.sends, requests())
			require.Equal(t, c.reason, seen.all[len(seen.all)-1].Reason)
		})
	}
}

// A ttl of 18 hours does not keep a solver for 18 hours.
func TestLifeOfAChallengeIsBounded(t *testing.T) {
	issuer := kit.Must(pow.New(pow.Config{Secrets: [][]byte{secret}}))(t)
	c := kit.Must(issuer.Issue(time.Now(), pow.Binding{Client: []byte("c")}, 16))(t)
	raw := kit.Must(base64.RawURLEncoding.DecodeString(c.Text))(t)
	raw[8], raw[9] = 255, 255
	h := http.Header{pow.ChallengeField: {base64.RawURLEncoding.EncodeToString(raw)}}
	require.Equal(t, 5*time.Minute, readChallenge(h).TTL)
}

func TestContextEndsASolve(t *testing.T) {
	h, requests := script(asking(t, pow.MaxWork))
	solving := make(chan struct{})
	tr := &Transport{Base: inMemory{h}, MaxWork: pow.MaxWork, Observe: func(Event) { close(solving) }}
	why := errors.New("the user went home")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	req := kit.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil))(t)
	done := make(chan error, 1)
	go func() {
		_, err := tr.RoundTrip(req)
		done <- err
	}()
	<-solving
	cancel(why)
	require.ErrorIs(t, <-done, why)
	require.Equal(t, 1, requests(), "it did not go on until the challenge expired, to exchange it")

	// The turn to solve is free again.
	require.NoError(t, tr.solver.take(t.Context()))
	tr.solver.pass()
	require.Empty(t, tr.queues.going)
}

// A challenge that expires while others are solved is exchanged for a fresh one.
func TestExpiredChallengeIsExchanged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 1)
		var seen events
		tr := &Transport{Base: inMemory{l}, Observe: seen.observe}
		require.NoError(t, tr.solver.take(t.Context())) // a long solve
		time.AfterFunc(15*time.Second, tr.solver.pass)
		require.Equal(t, 200, get(t, tr, "http://example.com").StatusCode)
		require.Equal(t, []string{"solving", "solving"}, seen.actions())
		require.Equal(t, 3, l.requests)
		require.Equal(t, 1, l.proofs)
	})
}

// A server that cannot tell now has not looked at the proof, or opens the same tally for it once more. So the proof goes
// along with the next request to the same place, whether that is sent here or by the caller, and only that one.
func TestProofOutlivesItsAnswer(t *testing.T) {
	busy := answer(503, "Retry-After", "1")
	lost := errors.New("the answer is lost")
	for name, c := range map[string]struct {
		method string
		mode   mode
		first  http.HandlerFunc // answers the first proof; nil: the network fails
		spent  bool             // the first proof is refused when it comes again
		after  time.Duration    // the caller tries again
		next   string           // there
		want   []int            // what the caller gets; 0: an error
		solves int
		sends  int
	}{
		"503 to a GET":            {"GET", newcomers, busy, false, 0, "", []int{200}, 1, 3},
		"503 to a POST":           {"POST", newcomers, busy, false, time.Second, "/contact", []int{503, 200}, 1, 3},
		"one for each request":    {"POST", everyRequest, busy, false, time.Second, "/contact", []int{503, 200}, 1, 3},
		"too many at once":        {"POST", everyRequest, answer(429, "Retry-After", "1"), false, 0, "", []int{200}, 1, 3},
		"its answer is lost":      {"POST", newcomers, nil, false, 0, "/contact", []int{0, 200}, 1, 3},
		"its challenge expires":   {"POST", newcomers, busy, false, time.Minute, "/contact", []int{503, 200}, 2, 4},
		"it is spent":             {"POST", everyRequest, busy, true, time.Second, "/contact", []int{503, 200}, 2, 4},
		"elsewhere is not shown":  {"POST", everyRequest, busy, false, time.Second, "/else", []int{503, 200}, 2, 4},
		"another challenge comes": {"GET", newcomers, asking(t, 16), false, 0, "", []int{200}, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				l := newLimiter(t, "contact", c.mode, 9)
				var proofs []string
				sends := 0
				base := func(r *http.Request) (*http.Response, error) {
					sends++
					proof := r.Header.Get(pow.ProofField)
					again := slices.Contains(proofs, proof)
					if proof != "" {
						proofs = append(proofs, proof)
					}
					switch {
					case len(proofs) == 1 && proof != "" && c.first == nil:
						return nil, lost
					case len(proofs) == 1 && proof != "":
						return inMemory{c.first}.RoundTrip(r)
					case again && c.spent:
						return inMemory{asking(t, 16)}.RoundTrip(r)
					}
					return inMemory{l}.RoundTrip(r)
				}
				var seen events
				tr := &Transport{Base: roundTripper(base), Observe: seen.observe}
				var got []int
				for _, path := range []string{"/contact", c.next} {
					if path == "" {
						break
					}
					resp, err := tr.RoundTrip(request(t, c.method, "http://example.com"+path, strings.NewReader("body")))
					if err != nil {
						require.ErrorIs(t, err, lost)
						got = append(got, 0)
					} else {
						require.NoError(t, resp.Body.Close())
						got = append(got, resp.StatusCode)
					}
					time.Sleep(c.after)
				}
				require.Equal(t, c.want, got)
				require.Equal(t, c.sends, sends)
				shown := 2
				if c.spent {
					shown = 3
				}
				require.Len(t, proofs, shown)
				solved := slices.DeleteFunc(seen.actions(), func(a string) bool { return a != toSolve })
				require.Len(t, solved, c.solves, "%v", seen.actions())
				if c.mode == newcomers { // what it has bought is kept
					require.Equal(t, 200, get(t, tr, "http://example.com/contact").StatusCode)
					require.Equal(t, c.sends+1, sends)
				}
			})
		})
	}
}
