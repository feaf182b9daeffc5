package middleware

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
)

// ServiceCredential returns a function for Config.Skip that lets a program's own
// services pass unlimited and uncounted: those that show one of the credentials
// in the given field. Compared are hashes, in constant time. Credentials are
// secrets like any other: at least 32 random characters.
//
// The field must not reach the handler from outside by another way, and a proxy
// that logs fields must not log this one.
func ServiceCredential(field string, credentials ...string) (func(*http.Request) bool, error) {
	var errs []error
	if http.CanonicalHeaderKey(field) == "" {
		errs = append(errs, errors.New("middleware: ServiceCredential: the field needs a name"))
	}
	if len(credentials) == 0 {
		errs = append(errs, errors.New("middleware: ServiceCredential: at least one credential is needed"))
	}
	hashes := make([][sha256.Size]byte, len(credentials))
	for i, c := range credentials {
		if len(c) < 32 {
			errs = append(errs, fmt.Errorf("middleware: ServiceCredential: credentials[%d] must have at least 32 characters, not %d", i, len(c)))
		}
		hashes[i] = sha256.Sum256([]byte(c))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
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
