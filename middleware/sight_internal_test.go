// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A client of several policies shows the tokens of all to each: those of the others hide from none of them that it knows
// its own. Behind what is broken nothing is known by sight: whoever sends garbage pays for no more than is read.
func TestKnownBySightBehindOtherTokens(t *testing.T) {
	compiled := func(policy string) *engine {
		m, err := New(Config{Policy: policy, Limits: []Limit{{Quota: 5, Window: time.Minute}}, Secrets: [][]byte{[]byte(strings.Repeat("k", 32))}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return m.loaded()
	}
	e, other := compiled("contact"), compiled("other")
	now := e.now()
	who := e.newSubject(context.Background(), now, Principal("alice"))
	tally, _ := e.memory.Take(now, e.base.policy, &limiter.Candidate{Key: who.key}, 1)
	ours := string(who.holder.Append(nil, &tally))
	foreign := other.newSubject(context.Background(), now, Principal("alice"))
	theirs := string(foreign.holder.Append(nil, &tally))
	forged := ours[:len(ours)-1] + "!" // refused if it is read
	rest, ok := who.holder.Rest(forged)
	require.True(t, ok)
	e.sight.Note(e.base.policy, who.key, rest, &tally)
	for line, known := range map[string]int{forged: 1, theirs + ", " + forged: 1, "garbage, " + forged: 0} {
		var shown credentials
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(TokenHeader, line)
		e.readTokens(now, &question{r: r}, &who, &shown)
		require.Equal(t, known, shown.accepted, line)
	}
}
