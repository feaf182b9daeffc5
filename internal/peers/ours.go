// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"log/slog"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// policy is the policy of all benchmarks. The cookie's name follows from it.
const (
	policy     = "contact"
	cookieName = "__Host-tallystick-" + policy
)

// The ways in which the middleware is measured. The plain one is what a program
// gets that sets nothing but policy, limit and secret, under the dearer method:
// a handler for GET is given a guarded ResponseWriter. Its memory is made for
// 65536 tallies and full long before a million; the roomy one remembers all.
func ours() []Limiter {
	get, post := http.MethodGet, http.MethodPost
	return []Limiter{
		{Name: Ours, Ours: true, Request: Request{get, InHeader}, New: withMemory(nil)},
		{Name: Ours + "-post", Ours: true, Request: Request{post, InHeader}, New: withMemory(nil)},
		{Name: Ours + "-roomy", Ours: true, Request: Request{get, InHeader}, New: withMemory(roomy)},
		{Name: Ours + "-cookie", Ours: true, Request: Request{get, InCookie}, New: withMemory(nil)},
		// The memory alone counts these, so it must have room for them. The
		// answers carry a token each all the same.
		{Name: Ours + "-no-token", Ours: true, Request: Request{get, Nothing}, New: withMemory(roomy)},
	}
}

// Ours is the name of the plain middleware among the limiters.
const Ours = "tallystick"

// withMemory returns the constructor of a middleware whose memory is made for
// tallies of the clients, or is the default one.
func withMemory(tallies func(clients int) int) func(http.Handler, Terms) (*Instance, error) {
	return func(next http.Handler, t Terms) (*Instance, error) {
		cfg := config(t)
		if tallies != nil {
			cfg.MaxClients = tallies(t.Clients)
		}
		m, err := middleware.New(cfg)
		if err != nil {
			return nil, err
		}
		return &Instance{Handler: m.Handler(next)}, nil
	}
}

func config(t Terms) middleware.Config {
	return middleware.Config{
		Policy:  policy,
		Limits:  []middleware.Limit{{Quota: int64(t.Quota), Window: t.Window}},
		Secrets: [][]byte{secret()},
		Logger:  slog.New(slog.DiscardHandler), // a full memory says so once a minute
	}
}

// secret is the same for all instances of a process: tokens are issued by one
// and verified by others.
func secret() []byte { return bytes.Repeat([]byte("0123456789abcdef"), 2) }

// issuer returns a middleware that issues the first tokens of a population, all at
// one instant, which gives them one length. Tokens say what was used and not
// what is left, so they fit whatever quota a benchmark has.
func issuer() (http.Handler, error) {
	now := time.Now()
	cfg := config(Plenty(1))
	cfg.TokenTransport = middleware.HeaderOnly
	cfg.InsecureNoMemory = true // every client comes once
	cfg.Now = func() time.Time { return now }
	m, err := middleware.New(cfg)
	if err != nil {
		return nil, err
	}
	return m.Handler(Served()), nil
}
