// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

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

func newMetrics(refused refusallog.Config) (*metrics, error) {
	registry := prometheus.NewRegistry() // of one's own: the global one is everybody's
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	return &metrics{
		Handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		provider: metric.NewMeterProvider(metric.WithReader(reader)),
		refusals: refusallog.New(refused),
	}, nil
}
