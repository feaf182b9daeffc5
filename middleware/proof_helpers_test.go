// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// challenging is contact with a challenge of almost no work, which two clients of
// an address can meet at the base price.
func challenging(c *clock, mode middleware.Mode) middleware.Config {
	cfg := contact(c)
	cfg.Challenge = &middleware.Challenge{Mode: mode, Work: 16, Crowd: 2, Path: "/tally/"}
	if mode == middleware.WhenBusy {
		cfg.Challenge.BusyPerSecond = 2
	}
	return cfg
}

// A site is a limiter with its endpoints, as a program would mount them. It has a log, unless the configuration has.
type site struct {
	*http.ServeMux
	m         *middleware.Middleware
	spy       *spy
	decisions *recorded
	log       *logged
}

func newSite(t testing.TB, cfg middleware.Config) *site {
	t.Helper()
	s := &site{ServeMux: http.NewServeMux(), spy: new(spy), decisions: record(&cfg)}
	if cfg.Logger.Handler() == slog.DiscardHandler {
		s.log = logTo(&cfg)
	}
	s.m = newLimiter(t, cfg)
	s.Handle("/", s.m.Handler(s.spy))
	if c := cfg.Challenge; c != nil && c.Path != "" {
		s.Handle("/tally/", s.m.Endpoints())
	}
	return s
}

func sites(t testing.TB, n int, cfg middleware.Config) (all []*site) {
	for range n {
		all = append(all, newSite(t, cfg))
	}
	return all
}

// proving shows proofs, a line for each.
func proving(proofs ...string) option {
	return func(r *http.Request) {
		for _, proof := range proofs {
			r.Header.Add(middleware.ProofHeader, proof)
		}
	}
}

// challengeIn returns the challenge of a response, which must have one that can be read.
func challengeIn(t testing.TB, resp *http.Response) pow.Challenge {
	t.Helper()
	values := resp.Header.Values(middleware.ChallengeHeader)
	require.Len(t, values, 1, "a challenge with %s", resp.Status)
	c, err := pow.ParseHeader(values[0])
	require.NoError(t, err)
	require.Contains(t, values[0], fmt.Sprintf(";ttl=%d;work=%d", c.TTL/time.Second, c.Work))
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	return c
}

func requireNoChallenge(t testing.TB, resp *http.Response) {
	t.Helper()
	require.Empty(t, resp.Header.Values(middleware.ChallengeHeader))
	require.NotContains(t, bodyOf(t, resp), "challenge")
}

// solve returns the proof for a challenge.
func solve(t testing.TB, c pow.Challenge) string {
	t.Helper()
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1})
	require.NoError(t, err)
	return proof
}

// solved returns the proof for the challenge in a response.
func solved(t testing.TB, resp *http.Response) string {
	t.Helper()
	return solve(t, challengeIn(t, resp))
}

// hashed is solve, slowly, and says how many hashes it took.
func hashed(t testing.TB, c pow.Challenge) (proof string, hashes int64) {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(c.Text)
	require.NoError(t, err)
	seed := sha256.Sum256(b[:38])
	var answers []string
	for i := range uint32(b[3]) {
		for n := uint32(0); ; n++ {
			hashes++
			sum := sha256.Sum256(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(seed[:], i), n))
			if string(sum[:6]) == string(b[38+6*i:44+6*i]) {
				answers = append(answers, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return c.Text + "~" + strings.Join(answers, "."), hashes
}

// fetched returns the answer of the challenge endpoint.
func fetched(h http.Handler, options ...option) *http.Response {
	return send(h, append([]option{method("GET"), path("/tally/challenge")}, options...)...)
}

// redeemed returns the answer of the redeem endpoint to a proof.
func redeemed(h http.Handler, proof string, options ...option) *http.Response {
	return send(h, append([]option{path("/tally/redeem"), proving(proof)}, options...)...)
}

// bought returns the first token of a new tally.
func bought(t testing.TB, h http.Handler, options ...option) string {
	t.Helper()
	resp := requireStatus(t, http.StatusOK, redeemed(h, solved(t, fetched(h, options...)), options...))
	require.NotEmpty(t, tokenIn(resp))
	return tokenIn(resp)
}

// peerIdentity is the identity of a client that send speaks for, if nothing else is said.
var peerIdentity = middleware.Address(netip.MustParseAddr("203.0.113.1"))

// priceAfter is what the next tally costs, and so what its challenge asks for, when so
// many were sold and none has leaked.
func priceAfter(sold, crowd int, work uint64) uint64 {
	doubled, rest := work<<(sold/crowd), uint64(sold%crowd)
	price := doubled + (doubled*rest+uint64(crowd)-1)/uint64(crowd)
	return (price + 3) &^ 3
}

// exhaust uses up the shared quota of the policy contact.
func exhaust(t testing.TB, h http.Handler, options ...option) {
	t.Helper()
	require.Equal(t, 5, admitted(h, 5, options...))
}

// A problem is a refusal's body.
type problem struct {
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

func problemIn(t testing.TB, resp *http.Response) (p problem) {
	t.Helper()
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	body := bodyOf(t, resp)
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&p), body)
	require.Equal(t, resp.StatusCode, p.Status)
	require.Equal(t, strconv.Itoa(len(body)), resp.Header.Get("Content-Length"))
	return p
}

// claimsIn returns what a token says to whoever reads it.
func claimsIn(t testing.TB, tok string) (claims struct {
	Sub, Fam string
	Exp      int64
	T        []int64
}) {
	t.Helper()
	parts := strings.Split(tok, ".")
	require.Len(t, parts, 3)
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(payload, &claims))
	return claims
}

// retryAfter returns the Retry-After of a response, which must have one.
func retryAfter(t testing.TB, resp *http.Response) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err, "Retry-After with %s", resp.Status)
	require.Positive(t, seconds)
	return time.Duration(seconds) * time.Second
}

// exhaustIn uses up what a mode gives without work for as long as there is some.
func exhaustIn(t testing.TB, mode middleware.Mode, h http.Handler, options ...option) {
	t.Helper()
	if mode == middleware.WhenExhausted {
		exhaust(t, h, options...)
	}
}
