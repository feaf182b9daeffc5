// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/otel"
)

// A page for Prometheus. docs/watching.md prints parts of this.
func Example() {
	cfg := middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{[]byte(strings.Repeat("s", 32))},
		Now:     func() time.Time { return time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC) },
	}
	mux := http.NewServeMux()

	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		log.Fatal(err)
	}
	watch, err := otel.New(metric.NewMeterProvider(metric.WithReader(reader)))
	if err != nil {
		log.Fatal(err)
	}
	cfg.OnDecision = watch.OnDecision
	limit, err := middleware.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := watch.Observe(limit); err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	mux.Handle("POST /contact", limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for range 6 {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/contact", nil))
	}
	page := httptest.NewRecorder()
	mux.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		if series := lines.Text(); strings.HasPrefix(series, "tallystick_decisions_total{") {
			_, outcome, _ := strings.Cut(series, `tallystick_outcome="`)
			outcome, _, _ = strings.Cut(outcome, `"`)
			fmt.Println(outcome, series[strings.LastIndex(series, " ")+1:])
		}
	}
	// Output:
	// admitted 5
	// refused 1
}
