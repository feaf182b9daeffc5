// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// noon is a clock that stands still: no window ends in a test.
func noon() time.Time { return time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC) }

// Every contestant of ours sends what its row says: the middleware itself is asked.
func TestContestantsAreWhatTheySay(t *testing.T) {
	const n = 60
	for _, c := range Contestants() {
		t.Run(c.Name, func(t *testing.T) {
			var told []middleware.Decision
			a, err := c.open(&opening{now: noon, tell: func(_ context.Context, d middleware.Decision) { told = append(told, d) }})
			require.NoError(t, err)
			told = nil
			require.NoError(t, a.before(n))
			a.run(n)
			require.NoError(t, a.after(n))

			meant, ours := map[string]struct {
				tokens int
				err    error
			}{
				"-post": {1, nil}, "-hop": {1, nil}, "-hop-four": {1, nil}, "-get": {1, nil}, "-cookie-post": {1, nil}, "-cookie-get": {1, nil},
				"-no-token": {0, nil}, "-first": {0, nil}, "-refused": {1, nil}, "-foreign": {0, token.ErrForeign},
				"-forged-low": {0, token.ErrForged}, "-forged-high": {0, token.ErrForged}, "-forged-long": {0, token.ErrForged},
			}[strings.TrimPrefix(c.Name, Ours)], strings.HasPrefix(c.Name, Ours)
			if !ours {
				require.Empty(t, told)
				return
			}
			require.Len(t, told, n)
			method := http.MethodPost
			if strings.HasSuffix(c.Name, "-get") {
				method = http.MethodGet
			}
			require.Equal(t, method, a.request.Method)
			identities := map[string]bool{}
			for _, d := range told {
				require.Equal(t, c.Beside != asRefused, d.Allowed)
				require.Nil(t, d.Offered)
				require.Equal(t, meant.tokens, d.Tokens)
				require.ErrorIs(t, d.TokenErr, meant.err)
				identities[d.Pseudonym()] = true
			}
			if c.Meets() {
				require.Len(t, identities, n)
			} else {
				require.Len(t, identities, 1)
			}
		})
	}
}

// A client that goes from instance to instance carries what it has used from one to the
// other: each request is counted on top of all before it, wherever those were made.
func TestHoppingClientsCarryTheirTokens(t *testing.T) {
	for name, instances := range map[string]int{"-post": 1, "-hop": 2, "-hop-four": 4, "-cookie-get": 1} {
		var left []int64
		a, err := contestant(t, Ours+name).open(&opening{now: noon, tell: func(_ context.Context, d middleware.Decision) {
			left = append(left, d.Limits()[0].Remaining)
		}})
		require.NoError(t, err)
		require.Len(t, a.handlers, instances)
		shown := a.line[0]
		a.run(40)
		require.NoError(t, a.after(40))
		require.NotEqual(t, shown, a.line[0])
		require.Len(t, left, 41, "with the first, which had no token")
		for i := range 40 {
			require.Equal(t, left[i]-1, left[i+1], name)
		}
	}
}

// The memory knows more than the low forgery claims, and less than the high one.
func TestForgeriesClaimLittleAndMuch(t *testing.T) {
	var last middleware.Decision
	o := &opening{now: noon, tell: func(_ context.Context, d middleware.Decision) { last = d }}
	h, err := ourselves(o, Plenty(1))
	require.NoError(t, err)
	used := func(shown string) int64 {
		a := newAsker(http.MethodPost, h)
		if shown != "" {
			a.show(InHeader, shown)
		}
		a.run(1)
		return last.Limits()[0].Quota - last.Limits()[0].Remaining
	}
	for range 100 {
		used("")
	}
	good := func(cost int64) string {
		tok, err := issued(o, policy, cost)
		require.NoError(t, err)
		return tok
	}
	lowForged, err := forgedLow(o)
	require.NoError(t, err)
	highForged, err := forgedHigh(o)
	require.NoError(t, err)
	require.EqualValues(t, 101, used(lowForged))
	require.EqualValues(t, 102, used(highForged), "a forged token says nothing")
	require.EqualValues(t, 103, used(good(low)), "nor does one that says less than is known")
	require.EqualValues(t, high+1, used(good(high)), "a good one that says more counts")
	for forged, cost := range map[string]int64{lowForged: low, highForged: high} {
		require.Equal(t, strings.LastIndexByte(good(cost), '.'), strings.LastIndexByte(forged, '.'))
	}
	long, err := forgedLong(o)
	require.NoError(t, err)
	require.Len(t, long, 512)
}

// What goes wrong with a contestant ends the measurement.
func TestAskersNoticeWhatIsNotAsMeant(t *testing.T) {
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	token := func(w http.ResponseWriter, name string) { w.Header()[name] = []string{"x"} }
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token(w, tokenHeader)
		token(w, setCookie)
		Served().ServeHTTP(w, r)
	})
	once := 0
	sometimes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if once++; once != 3 {
			token(w, tokenHeader)
		}
		Served().ServeHTTP(w, r)
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
		change  func(a *asker)
		report  string
	}{
		{"a refusal", refusing, func(*asker) {}, "answered 429 with 0 bytes"},
		{"no refusal", Served(), func(a *asker) { a.want = http.StatusTooManyRequests }, "answered 200 with 2 bytes"},
		{"a token where none was accepted", both, func(a *asker) { a.show(InHeader, "x"); a.channel = InHeader }, "answered 200"},
		{"no token", Served(), func(a *asker) { a.both = true }, "answered 200"},
		{"an answer without one", sometimes, func(a *asker) { a.show(InHeader, "x"); a.channel, a.echoes = InHeader, true }, "4 of 5 answers brought a token"},
	} {
		a := newAsker(http.MethodPost, c.handler)
		c.change(a)
		a.run(5)
		require.ErrorContains(t, a.after(5), c.report, c.name)
	}
}

// New clients have an instance that has not met them.
func TestNewClientsAreNew(t *testing.T) {
	for _, name := range []string{Ours + asFirst, reference + asFirst, "throttled" + asFirst} {
		a, err := contestant(t, name).open(new(opening))
		require.NoError(t, err)
		a.population = a.population.first(10)
		a.next = 10
		made, renew := 0, a.renew
		a.renew = func() (http.Handler, error) { made++; return renew() }
		for i, want := range []int{1, 1, 2, 2, 3} { // after two turns two clients are left
			require.NoError(t, a.before(4))
			a.run(4)
			require.NoError(t, a.after(4))
			require.Equal(t, want, made, "%s, turn %d", name, i)
		}
	}
}

func TestContestantsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Contestants() {
		require.Regexp(t, `^[a-z_-]+$`, c.Name, "it stands in the name of a benchmark")
		require.NotEmpty(t, c.Text)
		names[c.Name] = true
	}
	require.Len(t, names, len(Contestants()))
	for _, c := range Contestants() {
		require.True(t, names[reference+c.Beside] && names["throttled"+c.Beside], c.Name)
	}
	require.Panics(t, func() { limiterOf("nobody") })
}

func contestant(t *testing.T, name string) Contestant {
	t.Helper()
	for _, c := range Contestants() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no contestant is called "+name)
	return Contestant{}
}
