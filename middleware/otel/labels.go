// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tallystick/tallystick/middleware"
)

// The attributes. None has a value that a client can choose.
const (
	keyPolicy        = attribute.Key("tallystick.policy")
	keyReason        = attribute.Key("tallystick.reason")
	keyOutcome       = attribute.Key("tallystick.outcome")
	keyAuthenticated = attribute.Key("tallystick.authenticated")
	keyCall          = attribute.Key("tallystick.exact.result")
	keyProof         = attribute.Key("tallystick.proof.result")
	keyToken         = attribute.Key("tallystick.token.result")
	keyKid           = attribute.Key("tallystick.kid")
	keyPeer          = attribute.Key("tallystick.peer.state")
	keyRoute         = attribute.Key("http.route") // of the semantic conventions
)

// The outcomes: what was done with a request.
const (
	admitted = "admitted"
	refused  = "refused"
	withheld = "withheld" // a refusal, by shadow mode: the request was passed on
)

// labels are the attributes of a decision.
type labels struct {
	policy, route, reason, outcome string
	authenticated                  bool
}

func labelsOf(route string, d *middleware.Decision) labels {
	l := labels{policy: d.Policy, route: route, reason: string(d.Reason), outcome: outcomeOf(d)}
	l.authenticated = !d.Identity.IsZero() && !d.Identity.Addr().IsValid()
	return l
}

// attributes returns all but the route.
func (l *labels) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		keyPolicy.String(l.policy), keyOutcome.String(l.outcome), keyReason.String(l.reason), keyAuthenticated.Bool(l.authenticated),
	}
}

func outcomeOf(d *middleware.Decision) string {
	switch {
	case d.Admitted:
		return admitted
	case d.Allowed:
		return withheld
	}
	return refused
}

// routeOf returns the path of a pattern, without its method and host: that is what the
// semantic conventions call http.route, and what package otelhttp says.
func routeOf(pattern string) string {
	if at := strings.IndexByte(pattern, '/'); at > 0 {
		return pattern[at:]
	}
	return pattern
}
