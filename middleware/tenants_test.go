// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// tenants is how many tenants docs/api.md speaks of.
const tenants = 10_000

// numbersOf are those of one tenant: all different, or those of one of five plans.
func numbersOf(i int, plans bool) []middleware.Limit {
	quota := int64(100 + i)
	if plans {
		quota = int64(100 * (1 + i%5))
	}
	return []middleware.Limit{{Name: "minute", Quota: quota, Window: time.Minute}, {Name: "day", Quota: 100 * quota, Window: 24 * time.Hour}}
}

// ownNumbers is a policy where each tenant has limits of its own.
func ownNumbers(plans bool) middleware.Config {
	cfg := contact(new(clock))
	cfg.Limits, cfg.MaxClients = numbersOf(0, plans), 0
	cfg.Identity = byCustomer
	cfg.LimitsFor = patiently(func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
		i, err := strconv.Atoi(id.Name())
		return numbersOf(i, plans), err
	})
	return cfg
}

// tiered is the same with a tier for each tenant.
func tiered() middleware.Config {
	cfg := ownNumbers(false)
	cfg.LimitsFor, cfg.Tiers = nil, make(map[string][]middleware.Limit, tenants)
	for i := range tenants {
		cfg.Tiers[strconv.Itoa(i)] = numbersOf(i, false)
	}
	return cfg
}

// grown returns by how much the heap grows with what do makes, for each tenant.
func grown(do func() any) float64 {
	before := heap()
	made := do()
	after := heap()
	runtime.KeepAlive(made)
	return float64(after-before) / tenants
}

// visit has each tenant send one request.
func visit(h http.Handler) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	w := &sink{Fields: http.Header{}}
	for i := range tenants {
		clear(w.Fields)
		r.Header.Set("X-Customer", strconv.Itoa(i))
		h.ServeHTTP(w, r)
	}
}

// BenchmarkTenants measures what docs/api.md says of 10,000 tenants in one Middleware:
//
//	go test -run '^$' -bench Tenants -benchtime 20x ./middleware
func BenchmarkTenants(b *testing.B) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	made := func(cfg middleware.Config) *middleware.Middleware {
		m, err := middleware.New(cfg)
		require.NoError(b, err)
		return m
	}
	none := ownNumbers(false)
	none.LimitsFor = nil
	fixed := grown(func() any { return made(none) })
	for _, way := range []struct {
		name string
		cfg  middleware.Config
	}{
		{"a tier each", tiered()},
		{"LimitsFor, numbers of their own", ownNumbers(false)},
		{"LimitsFor, five plans", ownNumbers(true)},
	} {
		b.Run(way.name+"/New", func(b *testing.B) {
			for b.Loop() {
				made(way.cfg)
			}
		})
		b.Run(way.name+"/heap", func(b *testing.B) {
			bytes := 0.0
			for b.Loop() {
				bytes = grown(func() any { m := made(way.cfg); visit(m.Handler(nothing)); return m })
			}
			b.ReportMetric(bytes-fixed, "B/tenant")
			b.ReportMetric(0, "ns/op")
		})
		b.Run(way.name+"/first requests", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h := made(way.cfg).Handler(nothing)
				b.StartTimer()
				visit(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tenants, "ns/request")
		})
		b.Run(way.name+"/next requests", func(b *testing.B) {
			h := made(way.cfg).Handler(nothing)
			visit(h)
			b.ResetTimer()
			for b.Loop() {
				visit(h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tenants, "ns/request")
		})
	}
}

// Ten thousand tenants fit into one Middleware, each with its numbers and its counts, and without a tier.
func TestTenThousandTenants(t *testing.T) {
	cfg := ownNumbers(false)
	h := newSite(t, cfg)
	for _, i := range []int{0, 1, 4711, tenants - 1} {
		resp := send(h, customer(strconv.Itoa(i)))
		require.Equal(t, fmt.Sprintf(`"minute";q=%d;w=60, "day";q=%d;w=86400`, 100+i, 100*(100+i)), resp.Header.Get("RateLimit-Policy"))
		require.EqualValues(t, 99+i, h.Decisions.Last().Limits()[0].Remaining)
	}
}
