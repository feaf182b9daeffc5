// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"errors"
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// ScopeName is the name of the meter, by which views choose its instruments.
const ScopeName = "github.com/tallystick/tallystick/middleware/otel"

// version returns the version of this module that the program is built with; "" if it does not say.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == ScopeName {
			return m.Version
		}
	}
	return ""
}

// Instruments are what is told of decisions. Make them with [New]: one for all policies of a
// program is enough. They are safe for concurrent use.
type Instruments struct {
	common []attribute.KeyValue

	decisions metric.Int64Counter
	degraded  metric.Int64Counter
	work      metric.Int64Histogram
	call      metric.Float64Histogram
	stats     *gauges

	mu     sync.RWMutex
	sets   map[labels]metric.MeasurementOption // of decisions
	routes map[string]struct{}                 // at most maxRoutes

	observed sync.Map // what has series of Stats by now
}

// New returns instruments of a provider, or of the global one if that is nil. The attributes are
// added to all that is told: for several sets of policies of the same names in one program. A
// process's own attributes belong into the provider's resource.
func New(provider metric.MeterProvider, attributes ...attribute.KeyValue) (*Instruments, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(ScopeName, metric.WithInstrumentationVersion(version()))
	i := &Instruments{common: attributes, sets: map[labels]metric.MeasurementOption{}, routes: map[string]struct{}{}}
	var errs [5]error
	i.decisions, errs[0] = meter.Int64Counter("tallystick.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Requests that were decided, by what was done and why."))
	i.degraded, errs[1] = meter.Int64Counter("tallystick.decisions.degraded", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions that were made without the exact counter, because it did not answer."))
	i.work, errs[2] = meter.Int64Histogram("tallystick.challenge.work", metric.WithUnit("{hash}"),
		metric.WithDescription("What the challenges that went out with refusals ask for, in expected hashes."),
		metric.WithExplicitBucketBoundaries(workBounds()...))
	i.call, errs[3] = meter.Float64Histogram("tallystick.exact.call.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests have waited for the exact counter, in the queue and for the answer."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10))
	i.stats, errs[4] = newGauges(meter)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return i, nil
}

// workBounds are powers of two: the default is 2¹⁸, and a browser does at most 2²⁸.
func workBounds() (bounds []float64) {
	for bits := 10; bits <= 32; bits += 2 {
		bounds = append(bounds, float64(uint64(1)<<bits))
	}
	return bounds
}

// option adds the attributes that all have in common.
func (i *Instruments) option(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(attributes, i.common...)...))
}
