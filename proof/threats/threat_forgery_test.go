// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// requireAbsent checks that what is shown changes nothing: the response is the one that a request without token gets.
func requireAbsent(t *testing.T, shown ...string) {
	t.Helper()
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	spend(t, h, 2)
	for i, how := range []option{showing(shown...), showingCookie(shown...)} {
		resp := requireStatus(t, http.StatusOK, send(h, how))
		require.Equal(t, fmt.Sprintf(`"contact";r=%d;t=60`, 2-i), resp.Header.Get("RateLimit"), shown)
		require.Zero(t, h.Decisions.Last().Tokens, shown)
	}
}

func TestThreatsOfForgery(t *testing.T) {
	tok, header, payload := genuine(t, 1)
	require.Equal(t, tok, thief(t, header, payload), "the test signs as the server does")
	parts := strings.Split(tok, ".")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

	t.Run("T9 change any character", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Limits[0].Quota = 1 << 20
		h := newSite(t, cfg)
		for i := range tok {
			for bit := range 8 {
				forged := []byte(tok)
				forged[i] ^= 1 << bit
				send(h, showing(string(forged)))
				require.Zero(t, h.Decisions.Last().Tokens, "bit %d of byte %d", bit, i)
				require.Error(t, h.Decisions.Last().TokenErr)
			}
		}
		send(h, showing(tok))
		require.Equal(t, 1, h.Decisions.Last().Tokens)
	})
	t.Run("T10 choose the algorithm", func(t *testing.T) {
		for _, alg := range []string{"none", "None", "NONE", "nOnE", "HS384", "HS512", "hs256", "RS256", "ES256", ""} {
			other := strings.Replace(header, "HS256", alg, 1)
			requireAbsent(t, encode(other)+"."+parts[1]+".")
			requireAbsent(t, encode(other)+"."+parts[1]+"."+parts[2])
			requireAbsent(t, thief(t, other, payload))
		}
	})
	t.Run("T11 inject header parameters", func(t *testing.T) {
		end := len(header) - 1
		for _, extra := range []string{
			`,"jku":"https://attacker.example/keys"`, `,"x5u":"https://attacker.example/c"`, `,"crit":["exp"]`, `,"zip":"DEF"`, ` `,
		} {
			requireAbsent(t, thief(t, header[:end]+extra+header[end:], payload))
		}
		for _, kid := range []string{"../..", "%00\r\n", "' OR 1", strings.Repeat("k", 10<<10)} {
			at := strings.Index(header, `"kid":"`) + 7
			requireAbsent(t, encode(header[:at]+kid+header[at+4:])+"."+parts[1]+"."+parts[2])
		}
	})
	t.Run("T12 replace golang-jwt's HS256", func(t *testing.T) {
		genuineMethod := jwt.SigningMethodHS256
		jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return jwt.SigningMethodNone })
		defer jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return genuineMethod })
		requireAbsent(t, parts[0]+"."+parts[1]+".")
		requireAbsent(t, parts[0]+"."+parts[1]+"."+strings.Repeat("A", 43))
	})
	t.Run("T13 sign with a stolen key", func(t *testing.T) {
		cfg := contact(new(clock))
		h := newSite(t, cfg)
		require.Equal(t, 5, admitted(h, 5))
		less := thief(t, header, strings.Replace(payload, ",1,0]}", ",0,0]}", 1))
		require.NotEqual(t, tok, less)
		require.Zero(t, admitted(h, 10, showing(less)), "a token only makes the limiter stricter")
		require.Equal(t, 1, h.Decisions.Last().Tokens, "although it is accepted")
	})
	t.Run("T14 spell a token differently", func(t *testing.T) {
		last := strings.IndexByte(alphabet, tok[len(tok)-1])
		for spare := 1; spare < 4; spare++ {
			requireAbsent(t, tok[:len(tok)-1]+string(alphabet[last^spare]))
		}
		requireAbsent(t, tok+"=")
		requireAbsent(t, tok+"\r\n")
		requireAbsent(t, tok[:len(tok)-9]+"\r\n"+tok[len(tok)-9:])
		requireAbsent(t, tok+".")
		requireAbsent(t, parts[0]+"."+parts[1]+".."+parts[2])
		requireAbsent(t, `"`+tok+`"`)
	})
	t.Run("T15 show a token of another policy or secret", func(t *testing.T) {
		now := new(clock)
		kinds := map[string]middleware.Config{}
		for _, policy := range []string{"contact", "newsletter"} {
			for _, name := range []string{"a", "b"} {
				cfg := contact(now)
				cfg.Policy, cfg.Secrets = policy, [][]byte{secret(name)}
				kinds[policy+" "+name] = cfg
			}
		}
		for issuer, cfg := range kinds {
			h, _ := limited(t, cfg)
			tok := spend(t, h, 1)
			for verifier, cfg := range kinds {
				h := newSite(t, cfg)
				send(h, showing(tok))
				require.Equal(t, issuer == verifier, h.Decisions.Last().Tokens == 1, "%s shown to %s", issuer, verifier)
			}
		}
	})
}
