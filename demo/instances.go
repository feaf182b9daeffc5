// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

// maxInstances keeps a slip of the finger from taking all memory: an instance
// takes about 16 MB once all of its four memories is used.
const maxInstances = 100

// instances are servers behind a load balancer that knows no client: requests
// go to them in turn. They share the secrets and, for the paid route alone, the
// counter.
type instances struct {
	all  []*site
	turn atomic.Uint64
	home *home

	counted *counted
	metrics *metrics
}

func newInstances(o options, secrets [][]byte, counter exact.Counter) (*instances, error) {
	var err error
	if o.metrics, err = newMetrics(o); err != nil {
		return nil, err
	}
	o.counted = new(counted)
	b := &instances{counted: o.counted, metrics: o.metrics}
	if b.home, err = newHome(o.instances); err != nil {
		return nil, err
	}
	for n := range o.instances {
		site, err := newSite(o, n+1, secrets, counter, b.home)
		if err != nil {
			return nil, err
		}
		b.all = append(b.all, site)
	}
	return b, nil
}

// ServeHTTP implements [http.Handler].
func (b *instances) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == metricsPath { // of all instances: they are one process
		b.metrics.ServeHTTP(w, r)
		return
	}
	i := (b.turn.Add(1) - 1) % uint64(len(b.all))
	w.Header().Set("Demo-Instance", strconv.FormatUint(i+1, 10))
	b.all[i].ServeHTTP(w, r)
}

func newMetrics(o options) (*metrics, error) {
	registry := prometheus.NewRegistry() // of one's own: the global one is everybody's
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	return &metrics{
		Handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		provider: metric.NewMeterProvider(metric.WithReader(reader)),
		refusals: refusallog.New(refusallog.Config{Logger: o.log, Now: o.now}),
	}, nil
}
