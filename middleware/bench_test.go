// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

func benchmark(b *testing.B, cfg middleware.Config, reason middleware.Reason, tokens int, options ...option) {
	l := newLoad(b, cfg, reason, tokens, options...)
	b.ReportAllocs()
	for b.Loop() {
		l.send()
	}
}

// BenchmarkAllowed is what most requests are: a token by header, one limit.
func BenchmarkAllowed(b *testing.B) {
	tok := earned(b, open())
	b.Run("POST", func(b *testing.B) { benchmark(b, open(), middleware.WithinLimits, 1, showing(tok)) })
	b.Run("GET", func(b *testing.B) { benchmark(b, open(), middleware.WithinLimits, 1, showing(tok), method("GET")) })
	b.Run("two limits", func(b *testing.B) {
		two := open()
		two.Limits = append(two.Limits, fixed(1<<30, 24*3600e9))
		benchmark(b, two, middleware.WithinLimits, 1, showing(earned(b, two)))
	})
	b.Run("sliding", func(b *testing.B) {
		sliding := open()
		sliding.Limits[0].Algorithm = storeless.SlidingWindow
		benchmark(b, sliding, middleware.WithinLimits, 1, showing(earned(b, sliding)))
	})
}

func BenchmarkRefused(b *testing.B) {
	tok := earned(b, open())
	b.Run("token", func(b *testing.B) { benchmark(b, shut(), middleware.OverLimit, 1, showing(tok)) })
	b.Run("no token", func(b *testing.B) { benchmark(b, shut(), middleware.OverLimit, 0) })
}

func BenchmarkForged(b *testing.B) {
	forged := forgery(earned(b, open()))
	b.Run("one", func(b *testing.B) { benchmark(b, open(), middleware.WithinLimits, 0, showing(forged)) })
	b.Run("four", func(b *testing.B) {
		benchmark(b, open(), middleware.WithinLimits, 0, showing(forged, forged, forged, forged))
	})
}

func BenchmarkNoToken(b *testing.B) { benchmark(b, open(), middleware.WithinLimits, 0) }

func BenchmarkCookie(b *testing.B) {
	benchmark(b, open(), middleware.WithinLimits, 1, showingCookie(earned(b, open())))
}

func BenchmarkIPv6(b *testing.B) {
	tok := earned(b, open(), from("2001:db8::1"))
	benchmark(b, open(), middleware.WithinLimits, 1, from("2001:db8::1"), showing(tok))
}

// BenchmarkParallel has a client for each processor, who share an instance.
func BenchmarkParallel(b *testing.B) {
	shared := newLimiter(b, open()).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	addresses := make(chan string, runtime.GOMAXPROCS(0))
	for i := range cap(addresses) {
		addresses <- "203.0.113." + string(rune('1'+i))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		addr := <-addresses
		tok := earned(b, open(), from(addr))
		l := newLoad(b, open(), middleware.WithinLimits, 1, from(addr), showing(tok))
		l.h = shared
		for pb.Next() {
			l.send()
		}
	})
}

// A benchmark checks what it measures before it measures it.
func TestBenchmarksMeasureWhatTheySay(t *testing.T) {
	l := newLoad(t, open(), middleware.WithinLimits, 1, showing(earned(t, open())))
	l.send()
	require.NotEmpty(t, l.w.header.Get(middleware.TokenHeader))
	l = newLoad(t, shut(), middleware.OverLimit, 0)
	l.send()
	require.NotEmpty(t, l.w.header.Get("Retry-After"))
}

// BenchmarkCheck is a decision outside of HTTP, BenchmarkDecide one with a token.
func BenchmarkCheck(b *testing.B) {
	m := newLimiter(b, open())
	for b.Loop() {
		if a, err := m.Check(b.Context(), visitor, 1); err != nil || !a.Allowed {
			b.Fatal(a.Reason, err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	m, ask := newLimiter(b, open()), middleware.Ask{Identity: visitor, Tokens: []string{earned(b, open())}}
	for b.Loop() {
		if a, err := m.Decide(b.Context(), ask); err != nil || !a.Allowed {
			b.Fatal(a.Reason, err)
		}
	}
}

func BenchmarkPseudonym(b *testing.B) {
	d, err := newLimiter(b, open()).Peek(b.Context(), visitor)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = d.Pseudonym()
	}
}
