// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// Challenging is Contact with a challenge of almost no work, which two clients of
// an address can meet at the base price.
func Challenging(c *Clock, mode middleware.Mode) middleware.Config {
	cfg := Contact(c)
	cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16, Crowd: 2, Path: "/tally/"}
	if mode == middleware.WhenBusy {
		cfg.Challenge.BusyPerSecond = 2
	}
	return cfg
}

// A Site is a limiter with its endpoints, as a program would mount them. It has a log, unless the configuration has.
type Site struct {
	*http.ServeMux
	M         *middleware.Middleware
	Spy       *Spy
	Decisions *Recorded
	Log       *Logged
}

// NewSite returns a site of a configuration, which is sound.
func NewSite(t testing.TB, cfg middleware.Config) *Site {
	t.Helper()
	s := &Site{ServeMux: http.NewServeMux(), Spy: new(Spy), Decisions: Record(&cfg)}
	if cfg.Logger.Handler() == slog.DiscardHandler {
		s.Log = LogTo(&cfg)
	}
	s.M = NewLimiter(t, cfg)
	s.Handle("/", s.M.Handler(s.Spy))
	if c := cfg.Challenge; c != nil && c.Path != "" {
		s.Handle("/tally/", s.M.Endpoints())
	}
	return s
}

// Sites returns n sites that share nothing but the secrets.
func Sites(t testing.TB, n int, cfg middleware.Config) (all []*Site) {
	for range n {
		all = append(all, NewSite(t, cfg))
	}
	return all
}

// Proving shows proofs, a line for each.
func Proving(proofs ...string) Option {
	return func(r *http.Request) {
		for _, proof := range proofs {
			r.Header.Add(middleware.ProofHeader, proof)
		}
	}
}

// ChallengeIn returns the challenge of a response, which must have one that can be read.
func ChallengeIn(t testing.TB, resp *http.Response) pow.Challenge {
	t.Helper()
	values := resp.Header.Values(middleware.ChallengeHeader)
	require.Len(t, values, 1, "a challenge with %s", resp.Status)
	c, err := pow.ParseHeader(values[0])
	require.NoError(t, err)
	require.Contains(t, values[0], fmt.Sprintf(";ttl=%d;work=%d", c.TTL/time.Second, c.Work))
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	return c
}

// Solve returns the proof for a challenge.
func Solve(t testing.TB, c pow.Challenge) string {
	t.Helper()
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1})
	require.NoError(t, err)
	return proof
}

// Solved returns the proof for the challenge in a response.
func Solved(t testing.TB, resp *http.Response) string {
	t.Helper()
	return Solve(t, ChallengeIn(t, resp))
}

// Fetched returns the answer of the challenge endpoint.
func Fetched(h http.Handler, options ...Option) *http.Response {
	return Send(h, append([]Option{Method("GET"), Path("/tally/challenge")}, options...)...)
}

// Redeemed returns the answer of the redeem endpoint to a proof.
func Redeemed(h http.Handler, proof string, options ...Option) *http.Response {
	return Send(h, append([]Option{Path("/tally/redeem"), Proving(proof)}, options...)...)
}

// Bought returns the first token of a new tally.
func Bought(t testing.TB, h http.Handler, options ...Option) string {
	t.Helper()
	resp := RequireStatus(t, http.StatusOK, Redeemed(h, Solved(t, Fetched(h, options...)), options...))
	require.NotEmpty(t, TokenIn(resp))
	return TokenIn(resp)
}

// A Problem is a refusal's body.
type Problem struct {
	Type         string
	Title        string
	Status       int
	Detail       string
	Violated     []string `json:"violated-policies"`
	Reason       middleware.Reason
	Challenge    string
	TTL          int
	Work         int64
	ChallengeURL string `json:"challenge-url"`
	RedeemURL    string `json:"redeem-url"`
}

// ProblemIn reads the body of a refusal.
func ProblemIn(t testing.TB, resp *http.Response) (p Problem) {
	t.Helper()
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	body := BodyOf(t, resp)
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&p), body)
	require.Equal(t, resp.StatusCode, p.Status)
	require.Equal(t, strconv.Itoa(len(body)), resp.Header.Get("Content-Length"))
	return p
}

// ClaimsIn returns what a token says to its reader.
func ClaimsIn(t testing.TB, tok string) (claims struct {
	Sub, Fam string
	Exp      int64
	T        []int64
}) {
	t.Helper()
	_, payload := partsOf(t, tok)
	require.NoError(t, json.Unmarshal([]byte(payload), &claims))
	return claims
}

// To gives a site another configuration, whose decisions it hears, too.
func (s *Site) To(t testing.TB, cfg middleware.Config) {
	t.Helper()
	s.Decisions.Hear(&cfg)
	require.NoError(t, s.M.Reconfigure(cfg))
}

// Uses returns how many of n requests that show a token, and drop its successors, were charged to the bought tally.
func (s *Site) Uses(tok string, n int) (own int64) {
	before := len(s.Decisions.All)
	Admitted(s, n, Showing(tok))
	for _, d := range s.Decisions.All[before:] {
		if d.Own && d.Allowed && d.Cost > 0 {
			own++
		}
	}
	return own
}
