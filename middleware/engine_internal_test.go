package middleware

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A debugger's %+v of what New has compiled follows no pointer to a key.
func TestEnginePrintsNoSecret(t *testing.T) {
	secret := sha256.Sum256([]byte("a"))
	e, err := compile(Config{
		Policy:  "contact",
		Limits:  []Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret[:]},
	})
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		for _, v := range []any{e, e.base, e.codec, *e.codec} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, fmt.Sprintf("%x", secret[:4]))
			require.NotContains(t, text, strings.Trim(fmt.Sprint(secret[:4]), "[]"))
			require.NotContains(t, text, string(secret[:4]))
		}
	}
}

// A tag that validator does not know panics at its first use, which is in New:
// a mistake here would break every program.
func TestEveryPermittedFieldIsInTheForm(t *testing.T) {
	cfg := withDefaults(Config{})
	require.NoError(t, validate(&cfg))
	require.Len(t, permitted, 7)
	for name, says := range permitted {
		require.NotEmpty(t, says, name)
	}
}

// A refusal's wait is never nothing, which clients take for "at once".
func TestJitteredIsAtLeastASecond(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, time.Millisecond, time.Second} {
		require.Equal(t, time.Second, jittered(wait))
	}
}
