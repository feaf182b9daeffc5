// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Secrets are rotated one instance after the other: for a while some of the
// fleet sign with the old one and some with the new.
func TestRotationInEitherOrderKeepsTheTally(t *testing.T) {
	ring := func(names ...string) (secrets [][]byte) {
		for _, name := range names {
			secrets = append(secrets, secret(name))
		}
		return secrets
	}
	for name, rings := range map[string][2][][]byte{
		"old first, then new first": {ring("old", "new"), ring("new", "old")},
		"new first, then old first": {ring("new", "old"), ring("old", "new")},
		"only the old knows one":    {ring("old"), ring("old", "new")},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			var instances []http.Handler
			for _, secrets := range rings {
				cfg := contact(now)
				cfg.Secrets = secrets
				h, _ := limited(t, cfg)
				instances = append(instances, h)
			}
			h := inTurn(instances)
			tok := spend(t, h, 5)
			require.Equal(t, 0, admitted(h, 4, showing(tok)))
		})
	}
	t.Run("in one instance, while serving", func(t *testing.T) {
		cfg := contact(new(clock))
		h := newSite(t, cfg)
		tok := spend(t, h, 3)
		cfg.Secrets = ring("b", "a")
		require.NoError(t, h.m.Reconfigure(cfg))
		resp := send(h, showing(tok))
		require.Equal(t, `"contact";r=1;t=60`, resp.Header.Get("RateLimit"))
		require.NotEqual(t, tok[:64], tokenIn(resp)[:64], "signed by the new secret")
	})
}
