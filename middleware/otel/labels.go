// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

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
	keyRoute         = attribute.Key("http.route") // of the semantic conventions
)

// The outcomes: what was done with a request.
const (
	admitted = "admitted"
	refused  = "refused"
	withheld = "withheld" // a refusal, by shadow mode: the request was passed on
)

// maxRoutes is how many routes are told apart, where a router does not put patterns but paths
// into the request, which clients choose.
const maxRoutes = 512

// longestRoute is more than a program writes: what is longer, or no text, is such a path. A
// page of metrics with one that is not UTF-8 is none for Prometheus.
const longestRoute = 256

// other stands for all routes beyond, as the semantic conventions have it for methods.
const other = "_OTHER"

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

// setOf returns the attributes of a decision: made once, as there are few.
func (i *Instruments) setOf(route string, d *middleware.Decision) metric.MeasurementOption {
	l := labelsOf(route, d)
	i.mu.RLock()
	i.limitRoute(&l)
	set := i.sets[l]
	i.mu.RUnlock()
	if set != nil {
		return set
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limitRoute(&l)
	l.route = strings.Clone(l.route) // it may be a part of a request
	i.routes[l.route] = struct{}{}
	if set = i.sets[l]; set == nil {
		set = i.option(keyPolicy.String(l.policy), keyRoute.String(l.route), keyReason.String(l.reason),
			keyOutcome.String(l.outcome), keyAuthenticated.Bool(l.authenticated))
		i.sets[l] = set
	}
	return set
}

// limitRoute replaces a route that is new, where there are too many, or that is none.
func (i *Instruments) limitRoute(l *labels) {
	if _, known := i.routes[l.route]; known {
		return
	}
	if len(i.routes) >= maxRoutes || len(l.route) > longestRoute || !utf8.ValidString(l.route) {
		l.route = other
	}
}

// withPolicy returns the attributes of what is told by policy alone.
func (i *Instruments) withPolicy(policy string) metric.MeasurementOption {
	return i.option(keyPolicy.String(policy))
}

// withCall returns the attributes of a call to an exact counter.
func (i *Instruments) withCall(policy string, call string) metric.MeasurementOption {
	return i.option(keyPolicy.String(policy), keyCall.String(call))
}

// option adds the attributes that all have in common.
func (i *Instruments) option(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(attributes, i.common...)...))
}
