// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/otel"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

// metricsPath is where a Prometheus of the operator's reads. A real site serves it on an address
// that its visitors cannot reach: it tells an attacker what works.
const metricsPath = "/metrics"

// metrics are for operators: a page for Prometheus, and a line a minute about refused clients.
type metrics struct {
	http.Handler
	provider *metric.MeterProvider
	refusals *refusallog.Log
}

// instance returns the instruments of one instance. They have its number, as all of them are in
// one process.
func (m *metrics) instance(number int) (*instruments, error) {
	watch, err := otel.New(m.provider, attribute.String("demo.instance", strconv.Itoa(number)))
	return &instruments{watch, m.refusals}, err
}

// instruments are told of the decisions of one instance.
type instruments struct {
	*otel.Instruments
	refusals *refusallog.Log
}

// hook returns a Config.OnDecision that tells of a decision, and calls another.
func (i *instruments) hook(next func(context.Context, middleware.Decision)) func(context.Context, middleware.Decision) {
	return func(ctx context.Context, d middleware.Decision) {
		i.OnDecision(ctx, d)
		i.refusals.OnDecision(ctx, d)
		if next != nil {
			next(ctx, d)
		}
	}
}

// counted tells an operator whether a rotation went well: the limiter tells no client that
// its token was not accepted.
type counted struct{ decisions, tokenErrors atomic.Uint64 }

func (c *counted) note(d middleware.Decision) {
	c.decisions.Add(1)
	if d.TokenErr != nil {
		c.tokenErrors.Add(1)
	}
}

func (c *counted) attr() slog.Attr {
	return slog.Group("since-start", "decisions", c.decisions.Load(), "token-errors", c.tokenErrors.Load())
}
