// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// tokenOf is no token but for the claims that the oracle reads.
func tokenOf(own string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"aud":"p","fam":%q,"exp":9}`, own))) + ".e30"
}

// A step is a request at an address, and the answer.
type step struct {
	shows  string // the own tally
	status int    // 0: there is none
	d      house.Decision
	brings string
}

const (
	ok, no = http.StatusOK, http.StatusTooManyRequests
)

// asks has a client of a policy make some requests.
func asks(o *Oracle, l *Who, steps ...step) {
	for _, s := range steps {
		r := httptest.NewRequest(http.MethodPost, "/p", nil)
		if s.shows != "" {
			r.Header.Set(middleware.TokenHeader, tokenOf(s.shows))
		}
		c := o.begin(l, "10.0.0.1", r)
		if s.status == 0 {
			c.end(nil)
			continue
		}
		w := httptest.NewRecorder()
		if s.brings != "" {
			w.Header().Set(middleware.TokenHeader, tokenOf(s.brings))
		}
		if s.d.Reason != "" {
			s.d.Admitted = s.d.Admitted || s.status < http.StatusBadRequest
			w.Header().Set(house.DecisionHeader, s.d.String())
		}
		w.WriteHeader(s.status)
		c.end(w.Result())
	}
}

// judges returns the oracle of a policy, and a client of it.
func judges(r route) (*Oracle, *Who) { return NewOracle("p", r), &Who{Name: "drops"} }

func TestOracle(t *testing.T) {
	in, over, own := house.Decision{Reason: "within-limits"}, house.Decision{Reason: "over-limit"}, house.Decision{Reason: "within-limits", Own: true}
	room := house.Decision{Reason: "x", Room: true}
	for _, c := range []struct {
		name                              string
		mode                              string
		steps                             []step
		asked, refused, unjust, explained int
	}{
		{name: "the address has room", steps: []step{{"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the address has none", steps: []step{{"", ok, in, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1},
		{name: "the tally shown has room", mode: newcomers, steps: []step{{"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the tally shown has none", mode: newcomers, steps: []step{{"", ok, own, "a"}, {"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1},
		{name: "the count of another one is not mine", mode: newcomers, steps: []step{{"b", ok, own, "b"}, {"b", ok, own, "b"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the address is charged, and its own has room", mode: newcomers, steps: []step{{"a", ok, own, "a"}, {"a", ok, in, ""}}, unjust: 1},
		{name: "the address is charged, and its own has none", mode: newcomers, steps: []step{{"a", ok, own, "a"}, {"a", ok, own, "a"}, {"a", ok, in, ""}}},
		{name: "the room is not the address", steps: []step{{"", ok, room, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "nothing to show where work comes first", mode: newcomers, steps: []step{{"", 403, house.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "a proof for each request", mode: everyRequest, steps: []step{{"", 403, house.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "over the limit with a proof", mode: everyRequest, steps: []step{{"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "a full memory", steps: []step{{"", no, house.Decision{Reason: "over-limit", Inherited: 2}, ""}}, refused: 1, explained: 1},
		{name: "it began with the counts of others", steps: []step{{"", ok, house.Decision{Reason: "x", Inherited: 1}, ""}, {"", no, over, ""}}, refused: 1, explained: 1},
		{name: "it is told later", steps: []step{{"", no, over, ""}, {"", ok, house.Decision{Reason: "x", Inherited: 1}, ""}}, refused: 1, explained: 1},
		{name: "another one began with them", mode: newcomers, steps: []step{{"a", ok, house.Decision{Reason: "x", Own: true, Inherited: 1}, "a"}, {"b", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the proxy alone", steps: []step{{"", http.StatusNotFound, house.Decision{}, ""}}},
		{name: "no answer may be a charge", steps: []step{{"", ok, in, ""}, {"", http.StatusBadGateway, house.Decision{}, ""}, {"", no, over, ""}}, refused: 1},
		{name: "nor is it more", steps: []step{{"", 0, house.Decision{}, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, l := judges(route{Quota: 2, Mode: c.mode})
			l.Honest = true
			asks(o, l, c.steps...)
			require.EqualValues(t, c.asked, o.Asked.Load(), "asked")
			require.EqualValues(t, c.refused, o.Refused.Load(), "refused")
			require.EqualValues(t, c.explained, o.Verdict(), "explained")
			unjust, _ := o.Unjust.Read()
			require.EqualValues(t, c.unjust, unjust, "unjust")
			for name, u := range o.used {
				require.Zero(t, u.underway, name)
			}
		})
	}
}

// What is under way may have been charged: the refusal of another request is no fault then.
func TestOracleWaitsForWhatIsUnderWay(t *testing.T) {
	o, l := judges(route{Quota: 1})
	l.Honest = true
	first := o.begin(l, "10.0.0.1", httptest.NewRequest(http.MethodPost, "/p", nil))
	over := step{"", no, house.Decision{Reason: "over-limit"}, ""}
	asks(o, l, over)
	require.Empty(t, o.early)
	first.end(httptest.NewRecorder().Result())
	asks(o, l, over)
	require.Len(t, o.early, 1, "neither was admitted")
}

// What a client that always shows its newest token shows is accepted.
func TestTokensAreAccepted(t *testing.T) {
	for strict, want := range map[bool]int64{true: 1, false: 0} {
		o, l := judges(route{Quota: 9})
		l.Honest, l.Strict = true, strict
		asks(o, l, step{"a", ok, house.Decision{Reason: "x", TokenErr: "no"}, ""})
		unjust, _ := o.Unjust.Read()
		require.Equal(t, want, unjust)
	}
}

// A request that peers keep waiting is no early refusal, and one that no counter has decided is nothing at all.
func TestLoadIsNoFault(t *testing.T) {
	o, l := judges(route{Quota: 1, Parts: 1})
	l.Honest = true
	asks(o, l, step{"", no, house.Decision{Reason: string(middleware.Overloaded)}, ""}, step{"", ok, house.Decision{Reason: "x", Degraded: true}, ""})
	require.Empty(t, o.early)
	require.EqualValues(t, 1, o.Busy.Load())
	asks(o, l, step{"", no, house.Decision{Reason: string(middleware.OverLimit)}, ""})
	require.Len(t, o.early, 1, "refused with room")
}
