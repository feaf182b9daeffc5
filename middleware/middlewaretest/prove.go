// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// Quick returns a configuration that is as cfg and fit for tests: it goes by the clock,
// unless that is nil; work is the least there is, some microseconds, and no price rises for
// everybody; and the memory is for 1024 clients at most, which is quicker to make. All else
// is as it was.
func Quick(cfg middleware.Config, clock *Clock) middleware.Config {
	if clock != nil {
		cfg.Now = clock.Now
	}
	if cfg.MaxClients == 0 || cfg.MaxClients > 1024 {
		cfg.MaxClients = 1024
	}
	if cfg.InsecureNoMemory {
		cfg.MaxClients = 0
	}
	if cfg.Challenge != nil {
		challenge := *cfg.Challenge
		if !challenge.NonceOnly {
			challenge.Work = leastWork
		}
		cfg.Challenge = &challenge
	}
	return cfg
}

// leastWork is the minimum of Challenge.Work, in expected hashes.
const leastWork = 16

// Prove solves the challenge of a refusal, and returns the proof: the value of a
// Tallystick-Proof field of the request that is sent again. At the default Work that takes
// some 50 ms of one core. The test fails if the response has no challenge.
func Prove(t testing.TB, refusal *http.Response) string {
	t.Helper()
	challenge, err := pow.ParseHeader(refusal.Header.Get(middleware.ChallengeHeader))
	if err != nil {
		t.Fatalf("middlewaretest: the response (%s) has no challenge: %v", refusal.Status, err)
	}
	proof, err := pow.Solve(context.Background(), challenge.Text, pow.SolveOptions{Workers: 1})
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	return proof
}

// Buy does what the element tally-check on a page does before its form is sent: it asks the
// endpoints at a URL, Config.Challenge.Path on the site, whether the next request needs work
// and, if it does, works and redeems the proof. A client with cookies, such as [Browser]
// makes, then has what the next request needs. Buy returns whether work was needed. The test
// fails if none is for sale, or if the client keeps no cookie, as over plain HTTP.
func Buy(t testing.TB, c *http.Client, endpoint string) bool {
	t.Helper()
	endpoint = strings.TrimSuffix(endpoint, "/") + "/"
	asked, body := exchange(t, c, http.MethodGet, endpoint+"challenge", "")
	if asked.StatusCode == http.StatusOK && strings.Contains(body, `"needed":false`) {
		return false
	}
	redeemed, body := exchange(t, c, http.MethodPost, endpoint+"redeem", Prove(t, asked))
	if redeemed.StatusCode != http.StatusOK {
		t.Fatalf("middlewaretest: Buy: redeeming is answered %s: %s", redeemed.Status, body)
	}
	for _, bought := range redeemed.Cookies() {
		shown := func(c *http.Cookie) bool { return c.Name == bought.Name }
		if c.Jar != nil && bought.Secure && bought.MaxAge > 0 && !slices.ContainsFunc(c.Jar.Cookies(redeemed.Request.URL), shown) {
			t.Fatalf("middlewaretest: Buy: the client does not show its cookie to %s: use an https URL, or Config.Advanced.InsecureCookie", endpoint)
		}
	}
	return true
}

// exchange sends a request to an endpoint, and reads the answer.
func exchange(t testing.TB, c *http.Client, method, url, proof string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	req.Header.Set("Accept", "application/json")
	if proof != "" {
		req.Header.Set(middleware.ProofHeader, proof)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("middlewaretest: %v", err)
	}
	return resp, string(body)
}
