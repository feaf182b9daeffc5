// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Tests of steps that no other test misses: each was written because a mutant survived.

// Good tokens cost a MAC like forged ones.
func TestFiveGoodTokensAreFour(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	for _, show := range []option{showing(tok, tok, tok, tok, tok), with(middleware.TokenHeader, tok+","+tok+","+tok+","+tok+","+tok), showingCookie(tok, tok, tok, tok, tok)} {
		require.Equal(t, http.StatusOK, send(h, show).StatusCode)
		require.Equal(t, 4, h.decisions.last().Tokens)
	}
}
