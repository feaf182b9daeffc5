// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/tallystick/tallystick/middleware"
)

// TokenAt returns a token of the tally that all clients of id share, at count n of every limit of
// cfg: what a client has that has sent n requests of cost 1 by now, which is cfg.Now. Other
// instances take it for their own if they have the Policy and the Secrets of cfg. It says nothing
// of the memory of any instance: to use up what an instance remembers, call [Spend].
//
// n is from 1 to the smallest quota, of buckets the smallest burst, with the quotas of id's tier.
// The test fails where no client can have such a token: in Newcomers, with Exact, and without an
// identity.
func TokenAt(t testing.TB, cfg middleware.Config, id middleware.Identity, n int64) string {
	t.Helper()
	if cfg.Challenge != nil && cfg.Challenge.Mode == middleware.Newcomers {
		t.Fatalf("middlewaretest: TokenAt: nothing is shared in Newcomers; OwnTokenAt")
	}
	cfg.Challenge = nil
	return newMint(t, cfg, id, n).token(t, false, "")
}

// OwnTokenAt returns a token of a tally that id has bought, at count n of every limit of cfg;
// of a limit that such a tally has a part of, n is of that part. n may be 0: then nothing was
// used yet. Otherwise it is as [TokenAt]. The test fails where no tallies are sold: without
// a Challenge, and in EveryRequest.
func OwnTokenAt(t testing.TB, cfg middleware.Config, id middleware.Identity, n int64) string {
	t.Helper()
	if cfg.Challenge == nil || cfg.Challenge.Mode == middleware.EveryRequest {
		t.Fatalf("middlewaretest: OwnTokenAt: policy %q sells no tallies", cfg.Policy)
	}
	challenge := *cfg.Challenge
	challenge.Path, challenge.WaitingRoom, challenge.NoWaitingRoom = "/", 0, true
	cfg.Challenge = &challenge
	m := newMint(t, cfg, id, n)
	asked := m.send(t, m.Endpoints(), http.MethodGet, "/challenge", "")
	return m.token(t, true, Prove(t, asked))
}

// A mint is an instance that has seen no client yet, and shall see one.
type mint struct {
	*middleware.Middleware
	decided middleware.Decision // last
	n       int64
}

func newMint(t testing.TB, cfg middleware.Config, id middleware.Identity, n int64) *mint {
	t.Helper()
	if cfg.Exact != nil {
		t.Fatalf("middlewaretest: policy %q has a counter, which counts what a token would", cfg.Policy)
	}
	m := &mint{n: n}
	cfg = Quick(cfg, nil)
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return id, nil }
	cfg.Cost = func(*http.Request) int64 { return n }
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { m.decided = d }
	cfg.TokenTransport = middleware.HeaderOnly
	cfg.Quiet, cfg.Shadow = false, false
	cfg.Skip, cfg.RefusalHandler, cfg.PageHandler = nil, nil, nil
	cfg.Concurrency, cfg.ByOutcome = nil, nil // what ends otherwise is not charged
	cfg.EmbeddedCookie, cfg.InsecureCookie = false, false
	cfg.Logger = slog.New(slog.DiscardHandler)
	var err error
	if m.Middleware, err = middleware.New(cfg); err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	return m
}

// send sends a request to the instance.
func (m *mint) send(t testing.TB, h http.Handler, method, path, proof string) *http.Response {
	t.Helper()
	resp, _ := exchange(t, Forgetful(h, ""), method, "https://example.com"+path, proof)
	return resp
}

// token returns the token of the answer to the one request.
func (m *mint) token(t testing.TB, own bool, proof string) string {
	t.Helper()
	var resp *http.Response
	switch {
	case m.n == 0 && own:
		resp = m.send(t, m.Endpoints(), http.MethodPost, "/redeem", proof)
	case m.n < 1:
		t.Fatalf("middlewaretest: no client has a token at count %d", m.n)
	default:
		resp = m.send(t, m.Handler(http.NotFoundHandler()), http.MethodPost, "/", proof)
		if !m.decided.Admitted || m.decided.Own != own {
			t.Fatalf("middlewaretest: no client of policy %q has a token at count %d: %s", m.decided.Policy, m.n, m.decided.Reason)
		}
	}
	token := resp.Header.Get(middleware.TokenHeader)
	if token == "" {
		t.Fatalf("middlewaretest: no client has such a token: %s", resp.Status)
	}
	return token
}
