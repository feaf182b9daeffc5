// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// Own tallies are whole at home alone: on the process that has issued their challenge. What that comes
// to is computed here once more, and where they are at home is seen from outside.

// worthOf returns what an own tally may use on all instances: its quota at home, and the share
// on each of the others.
func worthOf(s *scene) int64 {
	return s.route.Quota + (s.n()-1)*chance.Share(s.route.Quota, s.route.Instances, 1)
}

// learn notes which process has issued the challenge in an answer, and so what the home is of a
// tally that an answer brings for a proof. It reads no home of a token: that is for the server to know.
func (w *witness) learn(r *http.Request, resp *http.Response, shown []string) {
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, err := pow.ParseHeader(resp.Header.Get(middleware.ChallengeHeader)); err == nil {
		o.issuers[c.Text] = resp.Header.Get(instance.ProcessHeader)
	}
	challenge, _, _ := strings.Cut(r.Header.Get(middleware.ProofHeader), "~")
	issuer := o.issuers[challenge]
	for _, t := range w.brought(resp) {
		if u := o.of(t); u.home == "" && !slices.Contains(shown, t) {
			u.home = issuer
		}
	}
}

// spentAt reports whether an own tally has used up the share that it has on a process which is not
// its home. No share explains anything of a tally of which the oracle does not know the home.
func (o *oracle) spentAt(u *used, process string) bool {
	return o.share > 0 && u.home != "" && u.home != process && u.at[process]+u.underway >= o.share
}
