// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

func TestWorthOf(t *testing.T) {
	s := &scene{route: instance.Route{Quota: 100, Instances: 10}, cluster: &cluster{instances: make([]*process, 10)}}
	require.EqualValues(t, 100+9*19, worthOf(s))
	s.starts.Store(2)
	require.EqualValues(t, 100+11*19, worthOf(s), "one that has started has never met the tally")
}

// challengeOf makes a challenge, with nothing to solve.
func challengeOf(t *testing.T) pow.Challenge {
	t.Helper()
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}})
	require.NoError(t, err)
	c, err := issuer.Issue(time.Unix(1_800_000_000, 0), pow.Binding{Client: []byte("client")}, 0)
	require.NoError(t, err)
	return c
}

// A share explains the refusals of a tally that has used it up on a process which is not its home,
// by the oracle's own count there, and no other refusal.
func TestOracleKnowsWhereATallyIsAtHome(t *testing.T) {
	in := instance.Decision{Reason: "within-limits", Own: true}
	over := instance.Decision{Reason: "over-limit", Own: true}
	type step struct {
		process string
		status  int
	}
	const ok, no = http.StatusNoContent, http.StatusTooManyRequests
	for _, c := range []struct {
		name        string
		share       int64
		issuer      string // "": a process that the oracle has not seen
		shared      bool
		steps       []step
		far, unjust int
	}{
		{"the share is used up", 2, "1", false, []step{{"2", ok}, {"2", ok}, {"2", no}}, 1, 0},
		{"a share is left", 2, "1", false, []step{{"2", ok}, {"2", no}}, 0, 1},
		{"it was used up elsewhere", 2, "1", false, []step{{"3", ok}, {"3", ok}, {"2", no}}, 0, 1},
		{"and there too", 2, "1", false, []step{{"3", ok}, {"3", ok}, {"2", ok}, {"2", ok}, {"2", no}, {"3", no}}, 2, 0},
		{"at home it is whole", 2, "2", false, []step{{"2", ok}, {"2", ok}, {"2", no}}, 0, 1},
		{"what was used at home is none of the share", 2, "1", false, []step{{"1", ok}, {"1", ok}, {"2", no}}, 0, 1},
		{"all is used up", 2, "1", false, []step{{"2", ok}, {"2", ok}, {"1", ok}, {"1", ok}, {"1", ok}, {"2", no}}, 0, 0},
		{"nothing is shared", 0, "1", false, []step{{"2", ok}, {"2", ok}, {"2", no}}, 0, 1},
		{"nobody knows its home", 2, "", false, []step{{"2", ok}, {"2", ok}, {"2", no}}, 0, 1},
		{"its address has room", 2, "1", true, []step{{"2", ok}, {"2", ok}, {"2", no}}, 0, 1},
	} {
		for _, way := range []string{"at the endpoint", "with a request"} {
			t.Run(c.name+", redeemed "+way, func(t *testing.T) {
				o := &oracle{quota: 5, share: c.share, shared: c.shared, tallies: map[string]*used{}, issuers: map[string]string{}}
				var answers *httptest.ResponseRecorder
				w := &witness{scripted(func(*http.Request) *httptest.ResponseRecorder { return answers }), o, func() string { return "127.16.0.1" }, true, "cookie"}
				send := func(path string, answer *httptest.ResponseRecorder, field, value string) {
					answers = answer
					r := httptest.NewRequest(http.MethodPost, path, nil)
					r.Header.Set(field, value)
					_, err := w.RoundTrip(r)
					require.NoError(t, err)
				}
				challenge := challengeOf(t)
				if c.issuer != "" {
					send("/p/tally/challenge", answerOf(c.issuer, middleware.ChallengeHeader, challenge.Header()), "Accept", "*/*")
				}
				first := answerOf("9", middleware.TokenHeader, tokenOf("a")) // where it is redeemed is of no account
				if way == "at the endpoint" {
					send("/p/tally/redeem", first, middleware.ProofHeader, challenge.Text+"~0")
				} else {
					first.Header().Set(instance.DecisionHeader, instance.Decision{Reason: "within-limits", Room: true}.String()) // it charges nothing
					send("/p", first, middleware.ProofHeader, challenge.Text+"~0")
				}
				for _, s := range c.steps {
					answer := answerOf(s.process, instance.DecisionHeader, over.String())
					if s.status == ok {
						answer = answerOf(s.process, instance.DecisionHeader, in.String(), middleware.TokenHeader, tokenOf("a"))
					}
					answer.Code = s.status
					send("/p", answer, middleware.TokenHeader, tokenOf("a"))
				}
				_, unjust := o.verdict()
				require.Len(t, unjust, c.unjust, "unjust")
				require.EqualValues(t, c.far, o.far, "far from home")
			})
		}
	}
}

// A token that is shown beside a proof does not get a new home by it.
func TestProofsMoveNoTally(t *testing.T) {
	o := &oracle{quota: 5, share: 2, tallies: map[string]*used{}, issuers: map[string]string{}}
	challenge := challengeOf(t)
	w := &witness{scripted(func(r *http.Request) *httptest.ResponseRecorder {
		if r.Method == http.MethodGet {
			return answerOf("1", middleware.ChallengeHeader, challenge.Header())
		}
		return answerOf("2", instance.DecisionHeader, instance.Decision{Reason: "within-limits", Own: true}.String(), middleware.TokenHeader, tokenOf("b"))
	}), o, func() string { return "127.16.0.1" }, true, "cookie"}
	_, err := w.RoundTrip(httptest.NewRequest(http.MethodGet, "/p/tally/challenge", nil))
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/p", nil)
	r.Header.Set(middleware.TokenHeader, tokenOf("b"))
	r.Header.Set(middleware.ProofHeader, challenge.Text+"~0")
	_, err = w.RoundTrip(r)
	require.NoError(t, err)
	require.Empty(t, o.of("b").home)
}

// answerOf is an answer of a process.
func answerOf(process string, fields ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set(instance.ProcessHeader, process)
	for i := 0; i < len(fields); i += 2 {
		w.Header().Add(fields[i], fields[i+1])
	}
	return w
}
