// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// join mounts what each of a fleet serves. Nothing stands between net/http and the middleware:
// what either does to a request, the other one sees.
func (s *site) join(f *instance.Fleet) (err error) {
	handlers := map[string]http.Handler{
		instance.Sliding: s.serve(false),
		instance.Fixed:   s.serve(false),
		instance.Bucket:  s.serve(false),
		instance.LogIn:   http.HandlerFunc(logIn),
		instance.AtOnce:  http.HandlerFunc(slow),
		instance.Form:    s.serve(false),
		instance.Upload:  http.HandlerFunc(upload),
		instance.Early:   http.HandlerFunc(early),
		instance.Proxied: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(s.door) },
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0), // clients that are gone
		},
	}
	program := policyfile.Program{Policies: map[string]middleware.Config{}, Logger: slog.New(slog.DiscardHandler)}
	for policy := range handlers {
		program.Policies[policy] = middleware.Config{PageHandler: middleware.Interstitial{}}
	}
	if s.set, err = policyfile.Open(f.Policies, program); err != nil {
		return err
	}
	for policy, h := range handlers {
		s.mux.Handle("/"+policy, s.set.Middleware(policy).Handler(h))
	}
	s.mux.Handle("/"+instance.Form+"/tally/", s.set.Middleware(instance.Form).Endpoints())
	return nil
}

func logIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(instance.Wrong) != "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func slow(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(30 * time.Millisecond)
	w.WriteHeader(http.StatusNoContent)
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
	_, _ = io.WriteString(w, strings.Repeat("x", instance.Size))
}

// upstream is behind the ReverseProxy, at the door at the back.
func upstream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	n, err := io.Copy(io.Discard, r.Body) // net/http sends 100 where that was asked for
	if err != nil {
		return
	}
	w.Header().Set("Trailer", instance.Sum)
	_, _ = io.WriteString(w, strings.Repeat("x", instance.Size))
	w.Header().Set(instance.Sum, strconv.FormatInt(n, 10))
}
