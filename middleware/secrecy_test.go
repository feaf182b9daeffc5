// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// requireNoSecret looks for four bytes of a secret in a row, in every spelling that fmt and slog have for bytes.
func requireNoSecret(t *testing.T, text string, secrets ...[]byte) {
	t.Helper()
	for _, s := range secrets {
		for i := range max(0, len(s)-3) {
			four := s[i : i+4]
			require.NotContains(t, text, string(four))
			require.NotContains(t, strings.ToLower(text), hex.EncodeToString(four))
			require.NotContains(t, text, strings.Trim(fmt.Sprint(four), "[]"))
			require.NotContains(t, text, strings.Trim(fmt.Sprintf("%#v", four), "[]byte{}"))
		}
		require.NotContains(t, text, base64.StdEncoding.EncodeToString(s)[:8])
		require.NotContains(t, text, base64.RawURLEncoding.EncodeToString(s)[:8])
	}
}

// printed is v by every verb, logger and encoder that someone might try.
func printed(v any) string {
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
	encoded, err := json.Marshal(v)
	fmt.Fprintln(&b, string(encoded), err)
	return b.String()
}

func TestNothingPrintsASecret(t *testing.T) {
	secrets := [][]byte{secret("a"), secret("b")}
	t.Run("the test would see one", func(t *testing.T) {
		for _, verb := range []string{"%v", "%x", "%#v", "%s"} {
			text := fmt.Sprintf(verb, secrets[0])
			found := strings.Contains(text, string(secrets[0][:4])) ||
				strings.Contains(text, hex.EncodeToString(secrets[0][:4])) ||
				strings.Contains(text, strings.Trim(fmt.Sprint(secrets[0][:4]), "[]")) ||
				strings.Contains(text, strings.Trim(fmt.Sprintf("%#v", secrets[0][:4]), "[]byte{}"))
			require.True(t, found, verb)
		}
	})
	cfg := contact(new(clock))
	cfg.Secrets = secrets
	t.Run("Config", func(t *testing.T) {
		requireNoSecret(t, printed(cfg), secrets...)
		requireNoSecret(t, printed(&cfg), secrets...)
		require.Equal(t, "middleware.Config(contact)", fmt.Sprint(cfg))
	})
	t.Run("Middleware", func(t *testing.T) {
		m := newLimiter(t, cfg)
		requireNoSecret(t, printed(m), secrets...)
		requireNoSecret(t, printed(m.Handler(new(spy))), secrets...)
	})
	t.Run("Middleware with a waiting room", func(t *testing.T) {
		cfg := waiting(new(clock), middleware.Newcomers)
		cfg.Secrets = secrets
		h := newSite(t, cfg)
		requireNoSecret(t, printed(h.M), secrets...)
		send(h, html)
		requireNoSecret(t, printed(h.Decisions.Last()), secrets...)
	})
	t.Run("Decision", func(t *testing.T) {
		decisions := record(&cfg)
		h, _ := limited(t, cfg)
		send(h, showing("garbage"))
		requireNoSecret(t, printed(decisions.Last()), secrets...)
	})
	t.Run("a Decision where package fmt calls no method", func(t *testing.T) {
		decisions := record(&cfg)
		h, _ := limited(t, cfg)
		send(h)
		prk, err := hkdf.Extract(sha256.New, secrets[0], []byte("tallystick/v1"))
		require.NoError(t, err)
		key, err := hkdf.Expand(sha256.New, prk, "tallystick/v1/pseudonym", sha256.Size)
		require.NoError(t, err)
		text := printed(struct{ d middleware.Decision }{decisions.Last()})
		for _, verb := range []string{"%v", "%s", "%x", "%d"} {
			require.False(t, strings.Contains(text, strings.Trim(fmt.Sprintf(verb, key[:]), "[]")), verb)
			require.False(t, strings.Contains(text, strings.Trim(fmt.Sprintf(verb, [32]byte(key)), "[]")), verb)
		}
	})
	t.Run("errors", func(t *testing.T) {
		wrong, _ := everythingWrong()
		_, err := middleware.New(wrong)
		for e := range eachError(err) {
			requireNoSecret(t, printed(e), wrong.Secrets[:3]...)
		}
	})
}

// eachError yields an error and all that it wraps.
func eachError(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		if !yield(err) {
			return
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				eachError(e)(yield)
			}
		} else if inner := errors.Unwrap(err); inner != nil {
			eachError(inner)(yield)
		}
	}
}
