// SPDX-License-Identifier: Apache-2.0

package house

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// handler returns what is behind a policy, and whether nothing may stand before it.
func (s *Site) handler(policy string) (h http.Handler, plain bool) {
	switch policy {
	case Upload:
		return http.HandlerFunc(upload), true
	case Early:
		return http.HandlerFunc(early), true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count(r, Admitted)
		if policy == Cached && r.Method == http.MethodGet {
			w.Header().Set("Cache-Control", "public, max-age=3600")
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // it has hung up
		}
		_, _ = io.WriteString(w, strconv.FormatInt(n, 10)) // the client notices what is missing
	}), false
}

// upload keeps next to nothing in memory: the parts are files until the response is sent.
func upload(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(1); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// early touches its fields no more when it has sent a 103: net/http may still be writing them, where
// a stream was reset (golang.org/issue/67940). So it is no fault of the handler's if they are written to.
func early(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	_, _ = io.WriteString(w, strings.Repeat("x", Size))
}
