// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	engine "github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

var (
	noon = time.Unix(1_700_000_000, 0)
	jobs = storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 5, Window: time.Minute}}}
	ring = [][]byte{[]byte("thirty-two bytes of a test, or so")}
)

func TestTokensAreOfOneIdentity(t *testing.T) {
	codec := kit.Must(token.New(jobs, ring))(t)
	tally := storeless.Tally{{At: noon.Unix() / 60, Cur: 3, Prev: 1}}
	tok := codec.Sign("alice", tally)
	got := kit.Must(codec.Verify(noon, "alice", tok))(t)
	require.Equal(t, tally, got)

	for name, refusal := range map[string]struct {
		err           error
		identity, tok string
		now           time.Time
	}{
		"none":             {token.ErrMalformed, "alice", "", noon},
		"another identity": {token.ErrHolder, "bob", tok, noon},
		"expired":          {token.ErrExpired, "alice", tok, noon.Add(2 * time.Minute)},
		"another letter":   {token.ErrForged, "alice", tok[:len(tok)-1] + string('A'+('B'-tok[len(tok)-1])&1), noon},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := codec.Verify(refusal.now, refusal.identity, refusal.tok)
			require.ErrorIs(t, err, refusal.err)
			require.Zero(t, got)
		})
	}
	require.Empty(t, codec.Sign("alice", storeless.Tally{}), "nothing was used")
}

// Package middleware sells tallies that belong to no identity. They are counted apart.
func TestBoughtTalliesAreNoIdentitys(t *testing.T) {
	codec := kit.Must(token.New(jobs, ring))(t)
	policy := kit.Must(limiter.Compile(jobs.Policy, jobs.Limits))(t)
	issuer := kit.Must(engine.New(ring, policy))(t)
	holder := issuer.Holder([]byte("alice"))
	for _, bound := range []bool{false, true} {
		bought := holder.AppendOwn(nil, engine.Own{Expires: noon.Unix() + 3600, Bound: bound}, &limiter.Tally{{At: noon.Unix() / 60, Cur: 2}})
		require.NotEmpty(t, bought)
		got, err := codec.Verify(noon, "alice", string(bought))
		require.ErrorIs(t, err, token.ErrHolder)
		require.Zero(t, got)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := token.New(storeless.Config{Policy: "No Name", Limits: jobs.Limits}, [][]byte{[]byte("short")})
	var fields []string
	for problem := range storeless.ConfigErrors(err) {
		fields = append(fields, problem.Field)
	}
	require.Equal(t, []string{"Policy", "Secrets[0]"}, fields)
	var many []storeless.Limit
	for i := range storeless.MaxLimits {
		many = append(many, storeless.Limit{Name: fmt.Sprint(i), Quota: storeless.MaxQuota, Window: time.Minute})
	}
	_, err = token.New(storeless.Config{Policy: "a-policy-of-a-long-name", Limits: many}, [][]byte{[]byte("short")})
	require.ErrorContains(t, err, "512 at most")
	require.ErrorContains(t, err, "Secrets[0]: must be at least 32")
	_, err = token.New(jobs, nil)
	require.ErrorContains(t, err, "Secrets: at least one secret")
	_, err = token.Keyfunc("jobs", nil)
	var problems int
	for range storeless.ConfigErrors(err) {
		problems++
	}
	require.Equal(t, 1, problems)
}

// Nothing but an error of New can tell of a secret that can be guessed: there is no log.
func TestSecretsThatCanBeGuessedAreRefused(t *testing.T) {
	weak := func(text string) [][]byte { return [][]byte{ring[0], []byte(text), []byte("short")} }
	for name, text := range map[string]string{
		"few bytes":     strings.Repeat("x", 32),
		"a piece again": strings.Repeat("0189zqye", 4),
		"a placeholder": "CHANGEME-changeme-please-0123456789",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := token.New(jobs, weak(text))
			require.ErrorContains(t, err, "Secrets[1]: can be guessed")
			require.ErrorContains(t, err, "Secrets[2]: must be at least 32", "all problems at once")
			require.NotContains(t, err.Error(), text)
			require.NotContains(t, err.Error(), "Secrets[0]")
			require.Len(t, slices.Collect(storeless.ConfigErrors(err)), 2)
			_, err = token.New(storeless.Config{}, weak(text)) // nor do other problems hide it
			require.ErrorContains(t, err, "Secrets[1]: can be guessed")
		})
	}
	_, err := token.New(jobs, [][]byte{nil, make([]byte, 40)})
	require.Len(t, slices.Collect(storeless.ConfigErrors(err)), 2, "each is told of once")
}

func TestCodecPrintsNoKey(t *testing.T) {
	codec := kit.Must(token.New(jobs, ring))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		require.Equal(t, "token.Codec(jobs)", fmt.Sprintf(verb, codec))
		require.Equal(t, "token.Codec(jobs)", fmt.Sprintf(verb, *codec))
	}
}
