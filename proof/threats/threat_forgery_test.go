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
	"github.com/tallystick/tallystick/proof/handlers"
)

// requireAbsent checks that what is shown changes nothing: the response is the one that a request without token gets.
func requireAbsent(t *testing.T, shown ...string) {
	t.Helper()
	cfg := handlers.Contact(new(handlers.Clock))
	h := handlers.NewSite(t, cfg)
	handlers.Spend(t, h, 2)
	for i, how := range []handlers.Option{handlers.Showing(shown...), handlers.ShowingCookie(shown...)} {
		resp := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, how))
		require.Equal(t, fmt.Sprintf(`"contact";r=%d;t=60`, 2-i), resp.Header.Get("RateLimit"), shown)
		require.Zero(t, h.Decisions.Last().Tokens, shown)
	}
}

func TestThreatsOfForgery(t *testing.T) {
	tok, header, payload := handlers.Genuine(t, 1)
	require.Equal(t, tok, handlers.Thief(t, header, payload), "the test signs as the server does")
	parts := strings.Split(tok, ".")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

	t.Run("T9 change any character", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits[0].Quota = 1 << 20
		h := handlers.NewSite(t, cfg)
		for i := range tok {
			for bit := range 8 {
				forged := []byte(tok)
				forged[i] ^= 1 << bit
				handlers.Send(h, handlers.Showing(string(forged)))
				require.Zero(t, h.Decisions.Last().Tokens, "bit %d of byte %d", bit, i)
				require.Error(t, h.Decisions.Last().TokenErr)
			}
		}
		handlers.Send(h, handlers.Showing(tok))
		require.Equal(t, 1, h.Decisions.Last().Tokens)
	})
	t.Run("T10 choose the algorithm", func(t *testing.T) {
		for _, alg := range []string{"none", "None", "NONE", "nOnE", "HS384", "HS512", "hs256", "RS256", "ES256", ""} {
			other := strings.Replace(header, "HS256", alg, 1)
			requireAbsent(t, handlers.Encode(other)+"."+parts[1]+".")
			requireAbsent(t, handlers.Encode(other)+"."+parts[1]+"."+parts[2])
			requireAbsent(t, handlers.Thief(t, other, payload))
		}
	})
	t.Run("T11 inject header parameters", func(t *testing.T) {
		end := len(header) - 1
		for _, extra := range []string{
			`,"jku":"https://attacker.example/keys"`, `,"x5u":"https://attacker.example/c"`, `,"crit":["exp"]`, `,"zip":"DEF"`, ` `,
		} {
			requireAbsent(t, handlers.Thief(t, header[:end]+extra+header[end:], payload))
		}
		for _, kid := range []string{"../..", "%00\r\n", "' OR 1", strings.Repeat("k", 10<<10)} {
			at := strings.Index(header, `"kid":"`) + 7
			requireAbsent(t, handlers.Encode(header[:at]+kid+header[at+4:])+"."+parts[1]+"."+parts[2])
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
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		require.Equal(t, 5, handlers.Admitted(h, 5))
		less := handlers.Thief(t, header, strings.Replace(payload, ",1,0]}", ",0,0]}", 1))
		require.NotEqual(t, tok, less)
		require.Zero(t, handlers.Admitted(h, 10, handlers.Showing(less)), "a token only makes the limiter stricter")
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
		now := new(handlers.Clock)
		kinds := map[string]middleware.Config{}
		for _, policy := range []string{"contact", "newsletter"} {
			for _, name := range []string{"a", "b"} {
				cfg := handlers.Contact(now)
				cfg.Policy, cfg.Secrets = policy, [][]byte{handlers.Secret(name)}
				kinds[policy+" "+name] = cfg
			}
		}
		for issuer, cfg := range kinds {
			h, _ := handlers.Limited(t, cfg)
			tok := handlers.Spend(t, h, 1)
			for verifier, cfg := range kinds {
				h := handlers.NewSite(t, cfg)
				handlers.Send(h, handlers.Showing(tok))
				require.Equal(t, issuer == verifier, h.Decisions.Last().Tokens == 1, "%s shown to %s", issuer, verifier)
			}
		}
	})
}
