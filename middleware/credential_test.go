// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestServiceCredential(t *testing.T) {
	_, err := middleware.ServiceCredential("", "short")
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "credentials[0]: must have at least 32 characters, not 5")
	require.NotContains(t, err.Error(), "short,")
	require.Equal(t, []string{"field", "credentials[0]"}, problems(t, err))
	again := strings.Repeat("a", 32)
	_, err = middleware.ServiceCredential("bad name:", again, again)
	require.Equal(t, []string{"field", "credentials[1]"}, problems(t, err))
	_, err = middleware.ServiceCredential("Internal")
	require.ErrorContains(t, err, "at least one")

	const old, fresh = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	skip, err := middleware.ServiceCredential("Demo-Internal", old, fresh)
	require.NoError(t, err)
	cfg := contact(new(clock))
	cfg.Skip = skip
	h, _ := limited(t, cfg)
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", old)))
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", fresh)))
	require.Equal(t, 5, admitted(h, 20, with("Demo-Internal", old+"x")))
	for _, wrong := range [][]string{{"Demo-Internal", ""}, {"Demo-Internal", old[1:]}, {"Demo-Internal", old, "Demo-Internal", old}, {"Internal", old}, nil} {
		require.Equal(t, http.StatusTooManyRequests, send(h, with(wrong...)).StatusCode)
	}
}

// TestIdentityForHasQuotasOfItsOwn narrows customers to products whose names are
// made to look like each other's.
func TestIdentityForHasQuotasOfItsOwn(t *testing.T) {
	identities := []middleware.Identity{
		middleware.APIKey("a"), middleware.APIKey("a").For("b"), middleware.APIKey("a").For("b").For("c"),
		middleware.APIKey("a").For("bc"), middleware.APIKey("ab").For("c"), middleware.APIKey("ab"), middleware.APIKey("a1:b"),
		middleware.APIKey("a").For("b1:c"), middleware.Principal("a").For("b"), middleware.APIKey("a1:b\x00\x00\x00\x02"),
		middleware.APIKey("a1:b").For("c"), middleware.APIKey("a").For("1:b"),
	}
	cfg := contact(new(clock))
	next := 0
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return identities[next], nil }
	h, _ := limited(t, cfg)
	for next = range identities {
		require.Equal(t, 5, admitted(h, 6), next)
	}
	require.Equal(t, middleware.APIKey("a"), middleware.APIKey("a").For(""))
	require.True(t, middleware.APIKey("").For("b").IsZero())
}
