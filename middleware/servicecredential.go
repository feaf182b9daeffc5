// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// ServiceCredential returns a function for Config.Skip that lets a program's own
// services pass unlimited and uncounted: those that show one of the credentials
// in the given field. Compared are hashes, in constant time. Credentials are
// secrets like any other: at least 32 random characters. All problems are reported,
// each a [storeless.ConfigError].
//
// The field must not reach the handler from outside by another way, and a proxy
// that logs fields must not log this one.
func ServiceCredential(field string, credentials ...string) (func(*http.Request) bool, error) {
	var errs []error
	problem := limiter.Noting(&errs, "")
	if !httpfield.IsToken(field) {
		problem("field", "must be the name of a header field")
	}
	if len(credentials) == 0 {
		problem("credentials", "at least one is needed")
	}
	hashes := make([][sha256.Size]byte, len(credentials))
	for i, c := range credentials {
		if len(c) < 32 {
			problem(fmt.Sprintf("credentials[%d]", i), "must have at least 32 characters, not %d", len(c))
		}
		if j := slices.Index(credentials, c); j < i {
			problem(fmt.Sprintf("credentials[%d]", i), "is the same as credentials[%d]", j)
		}
		hashes[i] = sha256.Sum256([]byte(c))
	}
	if err := told(errs...); err != nil {
		return nil, err
	}
	return func(r *http.Request) bool {
		shown := r.Header.Values(field)
		if len(shown) != 1 || len(shown[0]) > 1024 {
			return false
		}
		hash, known := sha256.Sum256([]byte(shown[0])), 0
		for i := range hashes {
			known |= subtle.ConstantTimeCompare(hashes[i][:], hash[:])
		}
		return known == 1
	}, nil
}
