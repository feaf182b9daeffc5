// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"

	"github.com/tallystick/tallystick/middleware"
)

// OnDecision tells of one decision: by metrics, and by attributes of the span in the context.
// It is for [middleware.Config].OnDecision, or for a hook that calls several. A decision outside
// of HTTP has no route.
func (i *Instruments) OnDecision(ctx context.Context, d middleware.Decision) {
	var route string
	if r, ok := d.Request(); ok {
		route = routeOf(r.Pattern)
	}
	i.decisions.Add(ctx, 1, i.setOf(route, &d))
	if d.Degraded {
		i.degraded.Add(ctx, 1, i.option(keyPolicy.String(d.Policy)))
	}
	if d.Offered != nil {
		i.work.Record(ctx, int64(d.Offered.Work), i.option(keyPolicy.String(d.Policy)))
	}
	if d.Call != "" {
		i.call.Record(ctx, d.CallTook.Seconds(), i.option(keyPolicy.String(d.Policy), keyCall.String(d.Call)))
	}
	describe(ctx, &d)
}

// maxRoutes is how many routes are told apart, where a router does not put patterns but paths
// into the request, which clients choose.
const maxRoutes = 512

// longestRoute is more than a program writes: what is longer, or no text, is such a path. A
// page of metrics with one that is not UTF-8 is none for Prometheus.
const longestRoute = 256

// other stands for all routes beyond, as the semantic conventions have it for methods.
const other = "_OTHER"

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
		set = i.option(append(l.attributes(), keyRoute.String(l.route))...)
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
