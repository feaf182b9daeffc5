// SPDX-License-Identifier: Apache-2.0

// Package otel tells OpenTelemetry what Tallystick decides: metrics by policy, route and
// reason, and attributes on the span that is active.
//
//	watch, err := otel.New(nil) // nil: the global MeterProvider
//	...
//	cfg.OnDecision = watch.OnDecision
//	limit, err := middleware.New(cfg)
//	...
//	err = watch.Observe(limit)
//
// docs/watching.md names every metric, and the folder dashboard has a dashboard for Grafana and
// alert rules for Prometheus that ask for them.
//
// Its limits first:
//
//   - No metric has an attribute that a client can choose. There is none for a key, an address
//     or a pseudonym: each value would be a series, and a flood of clients a flood of series.
//     The values are names of policies, patterns of routes, and words of package middleware.
//   - A route is http.Request.Pattern: a limiter that stands around the mux and not in it
//     sees none, and says "". Of a router that puts paths there in place of patterns, 512 are
//     told apart, and the others are "_OTHER".
//   - A refusal of a span's request has the pseudonym of the client on the span. Spans are
//     sampled, and belong to one request each.
//   - What the endpoints of a policy answer is no decision, and is seen in Observe's metrics
//     alone.
package otel
