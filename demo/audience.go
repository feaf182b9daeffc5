// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/middleware"
)

// noteDecision is Config.OnDecision of the showroom's policy.
func noteDecision(ctx context.Context, d middleware.Decision) {
	if s, ok := ctx.Value(stepKey{}).(*step); ok {
		s.decision, s.decided = d, true
	}
}

// watch has the audience see what becomes of a request. In a round that throws its tokens away
// it takes the token out of the request and out of the answer: so does a browser that keeps none.
func (s *showroom) watch(instance int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := &step{round: roundOf(r), instance: instance}
		r = r.WithContext(context.WithValue(r.Context(), stepKey{}, st))
		if st.round.thrown {
			r.Header = r.Header.Clone()
			r.Header.Del(middleware.TokenHeader)
			setCookies(r, slices.DeleteFunc(r.Cookies(), func(c *http.Cookie) bool { return ofShowroom(c.Name) }))
		}
		next.ServeHTTP(&watched{ResponseWriter: w, before: func(int) {
			s.settle(st, w.Header())
			if st.round.thrown {
				dropToken(w.Header())
			}
		}}, r)
	})
}

// settle notes the outcome, once: the page of a refusal shows it before it is sent.
func (s *showroom) settle(st *step, h http.Header) {
	if st.settled || !st.decided || st.round.id == "" {
		return
	}
	st.settled = true
	s.visits.of(st.round).add(st, sentToken(h), s.now())
}

func (s *showroom) settleFor(w http.ResponseWriter, r *http.Request) {
	if st, ok := r.Context().Value(stepKey{}).(*step); ok {
		s.settle(st, w.Header())
	}
}

// dropToken takes the token out of an answer.
func dropToken(h http.Header) {
	h.Del(middleware.TokenHeader)
	kept := h["Set-Cookie"][:0:0]
	for _, line := range h["Set-Cookie"] {
		if name, _, _ := strings.Cut(line, "="); !ofShowroom(name) {
			kept = append(kept, line)
		}
	}
	h["Set-Cookie"] = kept
	if len(kept) == 0 {
		h.Del("Set-Cookie")
	}
}

// sell notes the tallies that are bought at the endpoints.
func (s *showroom) sell(endpoints http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		round := roundOf(r)
		if r.Method == http.MethodPost && round.id != "" {
			h := w.Header()
			w = &watched{ResponseWriter: w, before: func(status int) {
				if token := sentToken(h); status == http.StatusOK && token != "" {
					s.visits.of(round).bought(round, token)
				}
			}}
		}
		endpoints.ServeHTTP(w, r)
	})
}
