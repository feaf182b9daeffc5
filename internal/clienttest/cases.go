// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/pow"
)

// work is the price of everything here, in expected hashes: nothing, for any language.
const work = 256

// scenes are the cases, in the order in which they are tried.
func scenes(secrets [2][]byte) []scene {
	// contact is a policy of a burst of requests, and one more each second.
	contact := func(name string, quota int64) middleware.Config {
		return middleware.Config{
			Policy: name,
			Limits: []middleware.Limit{
				{Algorithm: middleware.TokenBucket, Quota: 1, Window: time.Second, Burst: quota},
				{Quota: 1000, Window: time.Hour}, // so that tokens live for long
			},
			Secrets: [][]byte{secrets[0]},
		}
	}
	selling := func(name string, mode middleware.Mode) middleware.Config {
		cfg := contact(name, 4)
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 4, Window: time.Hour}}
		cfg.Challenge = &middleware.Challenge{Mode: mode, Work: work, Crowd: 1}
		return cfg
	}
	set := func(cfg middleware.Config, change ...func(*stage, *middleware.Config)) func(*stage) error {
		return func(s *stage) error {
			for _, f := range change {
				f(s, &cfg)
			}
			return s.limits(cfg)
		}
	}
	counting := func(outage middleware.Outage, down func(*stage) bool) func(*stage, *middleware.Config) {
		return func(s *stage, cfg *middleware.Config) {
			c := &counter{memory.New(0, func() time.Time { return s.now }), func() bool { return down(s) }}
			cfg.Exact = &middleware.Exact{Counter: c, Outage: outage, Deadline: 10 * time.Second}
		}
	}
	tooLate := func(s *stage, _ int, v *visit) {
		if v.proof != "" {
			s.now = s.now.Add(10 * time.Minute)
		}
	}
	return []scene{
		{
			name: "echo", calls: 5,
			about: "Each answer brings a token; each request shows the newest.",
			set:   set(contact("echo", 5)),
		},
		{
			name: "two-policies", calls: 3,
			about: "Each answer brings two tokens, one of each policy; each request shows both.",
			set: func(s *stage) error {
				return errors.Join(s.limits(contact("inner", 5)), s.limits(contact("outer", 5)))
			},
		},
		{
			name: "two-things", calls: 4,
			about: "One policy limits two things by turns. Their tokens differ in sub; each request shows the newest of its own thing.",
			set:   set(contact("two-things", 2)),
			thing: func(call int) string { return []string{"one", "other"}[call%2] },
		},
		{
			name: "rotation", calls: 5,
			about: "The server's secret changes, and with it the header of the tokens. The newest is still one of the same policy.",
			set:   set(contact("rotation", 5)),
			before: func(s *stage, send int, _ *visit) {
				cfg := contact("rotation", 5)
				switch send {
				case 3:
					cfg.Secrets = [][]byte{secrets[1], secrets[0]}
				case 5:
					cfg.Secrets = [][]byte{secrets[1]}
				default:
					return
				}
				s.must(s.inner.Reconfigure(s.config(cfg)))
			},
		},
		{
			name: "lost-answer", calls: 3,
			about: "The second answer is cut off. The tokens that came before are still good.",
			set:   set(contact("lost-answer", 5)),
			cut:   2,
		},
		{
			name: "other-origin", method: http.MethodGet, calls: 3,
			about:    "The second request is redirected to another origin, which must not see a token.",
			set:      set(contact("other-origin", 5)),
			redirect: 2,
		},
		{
			name: "wait", calls: 3,
			about: "The third request is refused with 429 and Retry-After, and admitted after that.",
			set:   set(contact("wait", 2)),
		},
		{
			name: "unavailable", method: http.MethodPut, calls: 2,
			about: "The counter is down at the second request: 503 with Retry-After. Then it is up again. PUT may be repeated.",
			set:   set(contact("unavailable", 5), counting(middleware.FailClosed, func(s *stage) bool { return len(s.judge.visits) == 2 })),
		},
		{
			name: "degraded", calls: 3,
			about: "The counter is down, and the server goes on without: Tallystick-Degraded, and tokens as ever.",
			set:   set(contact("degraded", 5), counting(middleware.FailOpen, func(*stage) bool { return true })),
		},
		{
			name: "work", calls: 3,
			about: "403 with a challenge. The proof buys a tally; its token is shown with each further request.",
			set:   set(selling("work", middleware.Newcomers)),
		},
		{
			name: "work-or-wait", calls: 6,
			about: "The fifth request is refused with 429, Retry-After and a challenge: work, or wait until the next hour.",
			set:   set(selling("work-or-wait", middleware.WhenExhausted)),
		},
		{
			name: "work-each-time", calls: 3,
			about: "Every request needs a proof of its own.",
			set:   set(selling("work-each-time", middleware.EveryRequest)),
		},
		{
			name: "proof-unread", method: http.MethodPut, calls: 2,
			about: "The first proof is answered 503 with Retry-After, and stays good. PUT may be repeated.",
			set:   set(selling("proof-unread", middleware.Newcomers)),
			away: func(s *stage) bool {
				return slices.IndexFunc(s.judge.visits, func(v *visit) bool { return v.proof != "" }) == len(s.judge.visits)-1
			},
		},
		{
			name: "expired", calls: 2,
			about: "The first proof comes too late. The refusal has a fresh challenge; its proof is good.",
			set:   set(selling("expired", middleware.Newcomers)),
			before: func(s *stage, send int, v *visit) {
				if send == 2 {
					tooLate(s, send, v)
				}
			},
		},
		{
			name: "price-risen", calls: 2,
			about: "Others have bought meanwhile. The first proof is worth too little; the next challenge asks for more work.",
			set:   set(selling("price-risen", middleware.Newcomers)),
			before: func(s *stage, send int, v *visit) {
				for others := 3; others > 0 && send == 2 && v.proof != ""; others-- {
					s.buy(client)
				}
			},
		},
		{
			name: "never-accepted", calls: 1, hopeless: true,
			about:  "Every proof comes too late. After the third the client gives up.",
			set:    set(selling("never-accepted", middleware.Newcomers)),
			before: tooLate,
		},
		{
			name: "memory-full", calls: 1, hopeless: true,
			about: "The server cannot remember another sale, and accepts no proof. After the third the client gives up.",
			set: func(s *stage) error {
				cfg := selling("memory-full", middleware.Newcomers)
				cfg.MaxClients = 1
				if err := s.limits(cfg); err != nil {
					return err
				}
				for i := range byte(64) {
					s.buy(netip.AddrFrom4([4]byte{10, i, 0, 1})) // one network could not fill it
				}
				return nil
			},
		},
		{
			name: "too-dear", calls: 1, hopeless: true,
			about: "The challenge asks for 2²⁹ hashes, twice the cap of our own clients. The client gives up before it begins.",
			set:   set(selling("too-dear", middleware.Newcomers), func(_ *stage, cfg *middleware.Config) { cfg.Challenge.Work = 1 << 29 }),
		},
		{
			name: "never", calls: 1, hopeless: true,
			about: "The request costs more than the quota: 403, without a challenge and without Retry-After. It is not sent again.",
			set:   set(contact("never", 5), func(_ *stage, cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 6 } }),
		},
	}
}

// must is for what a script does to itself.
func (s *stage) must(err error) {
	if err != nil {
		panic("clienttest: " + s.name + ": " + err.Error())
	}
}

// buy buys a tally for a client, if there is one to be had.
func (s *stage) buy(addr netip.Addr) {
	c, err := pow.ParseHeader(s.other(addr, "").Header.Get(middleware.ChallengeHeader))
	s.must(err)
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1})
	s.must(err)
	s.other(addr, proof)
}

// A counter is down at times.
type counter struct {
	exact.Counter
	down func() bool
}

var errDown = errors.New("the counter is down")

// Take implements [exact.Counter].
func (c *counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if c.down() {
		return exact.Verdict{}, errDown
	}
	return c.Counter.Take(ctx, call)
}
