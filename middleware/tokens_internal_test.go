// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

// selling is a limiter with a challenge, and nothing else that matters.
func selling(t *testing.T, challenge *Challenge) *Middleware {
	t.Helper()
	m, err := New(Config{
		Policy:    "contact",
		Limits:    []Limit{{Quota: 9, Window: time.Minute}},
		Secrets:   [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
		Challenge: challenge,
	})
	require.NoError(t, err)
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

// A token of an own tally that lives longer than any that is sold was signed by
// whoever has stolen the key: he gets no more than the rest of a tally's life.
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
