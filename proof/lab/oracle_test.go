// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
)

// tokenOf is no token but for the one claim that the oracle reads.
func tokenOf(own string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"aud":"p","fam":%q}`, own))) + ".e30"
}

// scripted answers requests as a test says.
type scripted func(*http.Request) *httptest.ResponseRecorder

func (f scripted) RoundTrip(r *http.Request) (*http.Response, error) { return f(r).Result(), nil }

// answerOf is an answer of a process: that of an instance if something was decided.
func answerOf(process string, status int, d instance.Decision, fields ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set(instance.ProcessHeader, process)
	if d.Call = "none"; d.Reason != "" {
		w.Header().Set(instance.DecisionHeader, d.String())
	}
	for i := 0; i < len(fields); i += 2 {
		w.Header().Add(fields[i], fields[i+1])
	}
	w.WriteHeader(status)
	return w
}

// A step is a request of an honest client at an address, and the answer.
type step struct {
	shows  string // the own tally
	status int
	d      instance.Decision
	brings string
}

func TestOracle(t *testing.T) {
	in := instance.Decision{Reason: "within-limits"}
	over := instance.Decision{Reason: "over-limit"}
	own := instance.Decision{Reason: "within-limits", Own: true}
	const ok, no = http.StatusNoContent, http.StatusTooManyRequests
	for _, c := range []struct {
		name                              string
		shared, proofs                    bool
		steps                             []step
		asked, refused, unjust, explained int
	}{
		{name: "the address has room", shared: true, steps: []step{{"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the address has none", shared: true, steps: []step{{"", ok, in, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1},
		{name: "the tally shown has room", steps: []step{{"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the tally shown has none", steps: []step{{"", ok, own, "a"}, {"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1},
		{name: "another one's count is not mine", steps: []step{{"b", ok, own, "b"}, {"b", ok, own, "b"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the room is not the address", shared: true, steps: []step{{"", ok, instance.Decision{Reason: "x", Room: true}, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "nothing to show where work comes first", steps: []step{{"", 403, instance.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "a proof for each request", shared: true, proofs: true, steps: []step{{"", 403, instance.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "over the limit with a proof", shared: true, proofs: true, steps: []step{{"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "a full memory", shared: true, steps: []step{{"", no, instance.Decision{Reason: "over-limit", Inherited: 2}, ""}}, refused: 1, explained: 1},
		{name: "it began with the counts of others", shared: true, steps: []step{{"", ok, instance.Decision{Reason: "x", Inherited: 1}, ""}, {"", no, over, ""}}, refused: 1, explained: 1},
		{name: "it is told later", shared: true, steps: []step{{"", no, over, ""}, {"", ok, instance.Decision{Reason: "x", Inherited: 1}, ""}}, refused: 1, explained: 1},
		{name: "another one began with them", steps: []step{{"a", ok, instance.Decision{Reason: "x", Own: true, Inherited: 1}, "a"}, {"b", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the proxy alone", shared: true, steps: []step{{"", 502, instance.Decision{}, ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &oracle{quota: 2, shared: c.shared, proofs: c.proofs, tallies: map[string]*used{}}
			var now step
			w := &witness{scripted(func(*http.Request) *httptest.ResponseRecorder {
				if now.brings == "" {
					return answerOf("1", now.status, now.d)
				}
				return answerOf("1", now.status, now.d, middleware.TokenHeader, tokenOf(now.brings))
			}), o, func() string { return "127.16.0.1" }, true, "cookie"}
			for _, now = range c.steps {
				r := httptest.NewRequest(http.MethodPost, "/p", nil)
				if now.shows != "" {
					r.Header.Set(middleware.TokenHeader, tokenOf(now.shows))
				}
				_, err := w.RoundTrip(r)
				require.NoError(t, err)
			}
			require.EqualValues(t, c.asked, o.asked, "asked")
			require.EqualValues(t, c.refused, o.refused, "refused")
			explained, unjust := o.verdict()
			require.Len(t, unjust, c.unjust, "unjust")
			require.EqualValues(t, c.explained, explained, "explained")
			for name, u := range o.tallies {
				require.Zero(t, u.underway, name)
			}
		})
	}
}

// What is under way may have been charged: the refusal of another request is no fault then.
func TestOracleWaitsForWhatIsUnderWay(t *testing.T) {
	o := &oracle{quota: 1, shared: true, tallies: map[string]*used{}}
	over := instance.Decision{Reason: "over-limit"}
	o.begin([]string{"a"})
	o.begin([]string{"a"})
	o.judge([]string{"a"}, "a", http.StatusTooManyRequests, over, true)
	require.Empty(t, o.early)
	o.judge([]string{"a"}, "a", http.StatusTooManyRequests, over, true)
	require.Len(t, o.early, 1, "neither was admitted")
}

func TestWrongAnswers(t *testing.T) {
	require.Equal(t, "AA~1.2.3.4.5.6.7.0", wrong("AA~1.2.3.4.5.6.7.8"))
	require.Equal(t, "AA~1.2.3.4.5.6.7.1", wrong("AA~1.2.3.4.5.6.7.0"))
}

// The most tallies for some work is docs/bounds.md's formula.
func TestLevelOf(t *testing.T) {
	require.Zero(t, levelOf(2, 8, 0, 0))
	for _, work := range []int64{1, 16, 100, 1000} {
		want := 2 * 8 * math.Log2(1+15./8*float64(work)/(2*8))
		require.EqualValues(t, math.Floor(want), levelOf(2, 8, work*leastWork, 0))
	}
	require.EqualValues(t, 2*leak, levelOf(2, 8, 0, 3600), "what leaks in an hour")
	s := &scene{cluster: &house.Cluster{Instances: make([]*house.Process, 2)}}
	s.starts.Store(1)
	require.EqualValues(t, math.Floor(3*8*math.Log2(1+15./8)), levelOf(s.n(), 8, 24*leastWork, 0), "one that has started sells as much")
}

func TestWorth(t *testing.T) {
	s := &scene{route: route{Quota: 100, Instances: 10}, cluster: &house.Cluster{Instances: make([]*house.Process, 10)}}
	require.EqualValues(t, 10*100, s.worth())
	s.starts.Store(2)
	require.EqualValues(t, 12*100, s.worth(), "one that has started has never met the tally")
}

func TestTable(t *testing.T) {
	held := &result{row: row{name: "held", formula: "L"}, admitted: 5, bound: 5}
	over := &result{row: row{name: "over", formula: "L"}, admitted: 6, bound: 5, spent: 12 * leastWork, bought: 3, most: 4}
	unjust := &result{row: row{name: "unjust", formula: "L"}, bound: 5, unjust: []string{"over-limit", "later"}}
	require.True(t, held.holds())
	require.False(t, over.holds())
	require.False(t, unjust.holds())
	var b strings.Builder
	require.NoError(t, writeTable(&b, short, []*result{held, over, unjust}))
	for _, says := range []string{
		"row over: EXCEEDED: admitted 6, at most 5 are promised: L\n", "3 of 4",
		"row unjust: 2 honest requests refused that had room, the first: over-limit\n",
	} {
		require.Contains(t, b.String(), says)
	}
	require.NotContains(t, b.String(), "row held:")
	require.Equal(t, 2, strings.Count(b.String(), "NOT HELD"))
}
