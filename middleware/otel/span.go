// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tallystick/tallystick/middleware"
)

// describe sets attributes on the span of a request, if it is recorded. Where limiters are
// stacked, the innermost is told of.
func describe(ctx context.Context, d *middleware.Decision) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	l := labelsOf("", d)
	attributes := append(l.attributes(), attribute.Int64("tallystick.cost", d.Cost))
	if d.Tier != "" {
		attributes = append(attributes, attribute.String("tallystick.tier", d.Tier))
	}
	if d.Degraded {
		attributes = append(attributes, attribute.Bool("tallystick.degraded", true))
	}
	if d.Call != "" {
		attributes = append(attributes,
			keyCall.String(d.Call),
			attribute.Float64("tallystick.exact.call.duration", d.CallTook.Seconds()))
	}
	if d.Proof != "" {
		attributes = append(attributes, keyProof.String(string(d.Proof)))
	}
	if !d.Admitted {
		if client := d.Pseudonym(); client != "" {
			attributes = append(attributes, attribute.String("tallystick.client", client))
		}
		attributes = append(attributes, attribute.Float64("tallystick.retry_after", d.RetryAfter.Seconds()))
	}
	span.SetAttributes(attributes...)
}
