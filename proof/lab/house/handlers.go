// SPDX-License-Identifier: Apache-2.0

package house

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"
)

// handler returns what is behind a policy, and whether nothing may stand before it.
func (s *Site) handler(policy string) (h http.Handler, plain bool) {
	switch policy {
	case Upload:
		return http.HandlerFunc(upload), true
	case Early:
		return http.HandlerFunc(early), true
	case Proxied:
		return &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(s.door) },
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0), // clients that are gone
		}, true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count(r, Admitted)
		switch {
		case policy == AtOnce && strings.HasSuffix(r.Header.Get(ClientHeader), Attacker):
			<-s.release
		case policy == Cached && r.Method == http.MethodGet:
			w.Header().Set("Cache-Control", "public, max-age=3600")
		case policy == Busy:
			time.Sleep(30 * time.Millisecond)
		case policy == LogIn && r.Header.Get(Wrong) != "":
			w.WriteHeader(http.StatusUnauthorized)
			return
		case policy == Slow:
			defer s.serves(r.Header.Get("X-Forwarded-For"))()
			w.WriteHeader(http.StatusEarlyHints) // a client sees that it was let in
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // it has hung up
		}
		_, _ = io.WriteString(w, strconv.FormatInt(n, 10)) // the client notices what is missing
	}), false
}

// serves counts a request that is being served to a client.
func (s *Site) serves(client string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[client]++
	s.state.Served = max(s.state.Served, s.served[client])
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.served[client]--; s.served[client] == 0 {
			delete(s.served, client)
		}
	}
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

// upstream is behind the ReverseProxy, at the door at the back.
func upstream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	n, err := io.Copy(io.Discard, r.Body) // net/http sends 100 where that was asked for
	if err != nil {
		return
	}
	w.Header().Set("Trailer", Sum)
	_, _ = io.WriteString(w, strings.Repeat("x", Size))
	w.Header().Set(Sum, strconv.FormatInt(n, 10))
}
