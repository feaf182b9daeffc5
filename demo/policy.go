// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// A route is one form and the policy that limits it.
type route struct {
	policy    string // also its path
	form      func() form
	limits    []middleware.Limit
	challenge *middleware.Challenge // nil: never
}

// challenge returns what a policy asks for. Where tallies are sold the work
// cannot be 0: what costs nothing is no limit. There the default stands.
func (o options) challenge(policy string, mode middleware.Mode) *middleware.Challenge {
	return &middleware.Challenge{
		Mode:        mode,
		Work:        o.work,
		NonceOnly:   o.work == 0 && mode == middleware.EveryRequest,
		Crowd:       o.crowd,
		WaitingRoom: 5, // the default; EveryRequest has no waiting room unless asked
		Path:        tallyPath(policy),
	}
}

// tallyPath is where the endpoints of a policy are.
func tallyPath(policy string) string { return "/tally/" + policy + "/" }

// form returns the policy of one form. Identity is left at its default,
// the address of the peer.
func (o options) form(to route) middleware.Config {
	// The built-in page is plain; people get one in the site's own look. Scripts
	// get the built-in problem details.
	page := http.Handler(http.HandlerFunc(showRefusal))
	if to.challenge != nil {
		// A form is kept in a page that sends it again, after work or a wait.
		page = keptform.Handler{Page: page}
	}
	return middleware.Config{
		Policy:    to.policy,
		Limits:    to.limits,
		Challenge: to.challenge,
		// The token is always a header too, where it is easy to watch.
		// The demo speaks plain HTTP, where browsers store no Secure cookie.
		// A real site leaves this out.
		Advanced:    middleware.Advanced{InsecureCookie: true},
		PageHandler: page,
		OnDecision:  func(_ context.Context, d middleware.Decision) { o.counted.note(d) },
		Logger:      o.log,
		Now:         o.now,
	}
}
