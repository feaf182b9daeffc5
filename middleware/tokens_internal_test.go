// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/proof/kit"
)

// selling is a limiter with a challenge, and nothing else that matters.
func selling(t *testing.T, challenge *Challenge) *Middleware {
	t.Helper()
	m := kit.Must(New(Config{
		Policy:    "contact",
		Limits:    []Limit{{Quota: 9, Window: time.Minute}},
		Secrets:   [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
		Challenge: challenge,
	}))(t)
	return m
}

// Tokens of one own tally, shown side by side, are merged: a client cannot gain
// by showing an older one too, in whatever order.
func TestShownTokensOfAnOwnTallyAreMerged(t *testing.T) {
	m := selling(t, &Challenge{})
	e, now, own := m.engine.Load(), time.Unix(1_800_000_000, 0), token.Own{ID: [6]byte{1}, Expires: 1_800_003_600}
	low, _ := e.base.policy.Step(now, limiter.Tally{}, 2)
	high, _ := e.base.policy.Step(now, limiter.Tally{}, 7)
	for _, order := range [][]limiter.Tally{{low, high}, {high, low}} {
		var s credentials
		for _, tally := range order {
			require.Zero(t, s.addOwn(now, e.base.pass.policy, own, tally))
		}
		require.Len(t, s.own, 1)
		require.Equal(t, high, s.own[0].tally)
	}
}

// A token of an own tally that lives longer than any that is sold was signed by a thief of the key,
// who gets no more than the rest of a tally's life.
func TestOwnTokensThatLiveTooLongAreNotBelieved(t *testing.T) {
	m := selling(t, &Challenge{})
	e := m.engine.Load()
	now := time.Unix(1_800_000_000, 0)
	q := e.about(t.Context(), now, Address(netip.MustParseAddr("203.0.113.1")))
	life := e.challenge.passLife
	for _, test := range []struct {
		life time.Duration
		want tokenFault
	}{{life, tokenSound}, {life + time.Minute, tokenSound}, {life + time.Minute + time.Second, tokenLate}, {100 * 365 * 24 * time.Hour, tokenLate}} {
		require.Equal(t, test.want, q.faultOfOwn(&token.Own{ID: [6]byte{1}, Expires: now.Add(test.life).Unix()}), test.life)
	}
}

// Where nothing is sold an own token was signed by a thief of the key, however short it lives.
func TestOwnTokensWhereNothingIsSold(t *testing.T) {
	for name, challenge := range map[string]*Challenge{"no challenge": nil, "proofs buy requests": {Mode: EveryRequest}} {
		t.Run(name, func(t *testing.T) {
			m := selling(t, challenge)
			now := time.Unix(1_800_000_000, 0)
			q := m.engine.Load().about(t.Context(), now, Address(netip.MustParseAddr("203.0.113.1")))
			require.Equal(t, tokenHolder, q.faultOfOwn(&token.Own{ID: [6]byte{1}, Expires: now.Unix() + 1}))
		})
	}
}

// A client of several policies shows the tokens of all to each: the tokens of the others do not keep a policy from
// knowing its own. Behind a broken token nothing is known by sight: a client that sends garbage costs no more than the
// read.
func TestKnownBySightBehindOtherTokens(t *testing.T) {
	compiled := func(policy string) *engine {
		m, err := New(Config{Policy: policy, Limits: []Limit{{Quota: 5, Window: time.Minute}}, Secrets: [][]byte{[]byte(strings.Repeat("k", 32))}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return m.loaded()
	}
	e, other := compiled("contact"), compiled("other")
	now := e.now()
	who := &e.about(context.Background(), now, Principal("alice")).who
	tally, _ := e.memory.Take(now, e.base.policy, &limiter.Candidate{Key: who.key}, 1)
	ours := string(who.holder.Append(nil, &tally))
	theirs := string(other.about(context.Background(), now, Principal("alice")).who.holder.Append(nil, &tally))
	forged := ours[:len(ours)-1] + "!" // refused if it is read
	rest := kit.Must(e.codec.Glance(forged))(t)
	require.NotEmpty(t, rest)
	e.sight.Note(e.base.policy, who.key, rest, &tally)
	for line, known := range map[string]int{forged: 1, theirs + ", " + forged: 1, "garbage, " + forged: 0} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(TokenHeader, line)
		q := e.about(context.Background(), now, Principal("alice"))
		q.r = r
		q.readTokens()
		require.Equal(t, known, q.shown.accepted, line)
	}
}

// Whatever is known by sight is what Verify would read: the same tally, of the same client, good now. Clients drop, echo
// and replay; clocks step, charges come back, memories are full, and configurations and their secrets change.
func TestKnownBySightIsWhatVerifySays(t *testing.T) {
	for name, vary := range map[string]func(*Config){
		"plain":   func(*Config) {},
		"outcome": func(c *Config) { c.ByOutcome = &ByOutcome{Limits: []string{"b"}, Free: []int{200}} },
		"work":    func(c *Config) { c.Challenge = &Challenge{Work: 64, Path: "/"} },
		"bucket": func(c *Config) {
			c.Limits[0] = Limit{Name: "a", Algorithm: TokenBucket, Quota: 10, Window: 15 * time.Second, Burst: 4}
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := 0
			for seed := range uint64(4) {
				known += knownAsRead(t, rand.New(rand.NewPCG(seed, 5)), vary)
			}
			require.Greater(t, known, 100)
		})
	}
}

// knownAsRead plays traffic, and returns how many tokens were known.
func knownAsRead(t *testing.T, r *rand.Rand, vary func(*Config)) (known int) {
	now, clients := time.Unix(1_900_000_000, 0), 1+20*r.IntN(3)
	configured := func() Config {
		cfg := Config{Policy: "p", MaxClients: clients, Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
			Limits:  []Limit{{Name: "a", Quota: 6, Window: 4 * time.Second}, {Name: "b", Algorithm: FixedWindow, Quota: 10, Window: 30 * time.Second}},
			Secrets: [][]byte{[]byte(strings.Repeat("k", 31) + string(rune('a'+r.IntN(2)))), []byte(strings.Repeat("z", 32))}}
		vary(&cfg)
		return cfg
	}
	m := kit.Must(New(configured()))(t)
	handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch r.IntN(6) {
		case 0:
			_ = Refund(w, q)
		case 1:
			_ = Settle(q, 3)
		case 2:
			Charge(q, r.IntN(2) == 0)
		}
		w.WriteHeader([]int{http.StatusOK, http.StatusForbidden}[r.IntN(2)])
	}))
	type issued struct{ token, to string }
	var tokens []issued
	subjects := map[string]*question{}
	for range 250 {
		switch now = now.Add(time.Duration(r.IntN(900)) * time.Millisecond); r.IntN(30) {
		case 0:
			now = now.Add(-time.Duration(r.IntN(9)) * time.Second)
		case 1:
			now = now.Add(15 * time.Second)
		case 2:
			require.NoError(t, m.Reconfigure(configured()))
			clear(subjects)
		}
		q := httptest.NewRequest("GET", "/", nil)
		q.RemoteAddr = []string{"203.0.113.1:1", "[2001:db8::1]:1", fmt.Sprintf("198.51.100.%d:1", r.IntN(200))}[r.IntN(3)]
		for i := len(tokens) - 1; i >= 0 && i > len(tokens)-20; i-- {
			if tokens[i].to == q.RemoteAddr && r.IntN(5) > 0 {
				q.Header.Set(TokenHeader, tokens[i].token)
				break
			}
		}
		e := m.loaded()
		if _, met := subjects[q.RemoteAddr]; !met {
			id := kit.Must(PeerAddress(q))(t)
			subjects[q.RemoteAddr] = e.about(context.Background(), now, id)
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, q); w.Header().Get(TokenHeader) != "" {
			tokens = append(tokens, issued{w.Header().Get(TokenHeader), q.RemoteAddr})
		}
		for _, one := range tokens[max(0, len(tokens)-20):] {
			for name, q := range subjects {
				var says limiter.Tally
				q.at = now
				if rest, err := e.codec.Glance(one.token); err == nil && q.knows(rest, &says) {
					read := kit.Must(q.who.holder.Verify(now, one.token))(t)
					require.Equal(t, one.to, name)
					require.True(t, read.Own.IsZero())
					require.Equal(t, read.Tally, says)
					known++
				}
			}
		}
	}
	return known
}
