// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

// A page prints the last lines of a log of refusals. They go to the log too.
type page struct {
	refusals *refusallog.Log

	mu    sync.Mutex
	lines [][]byte
}

func newPage(cfg refusallog.Config, log io.Writer) *page {
	p := new(page)
	cfg.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(log, p), nil))
	p.refusals = refusallog.New(cfg)
	return p
}

// Write keeps a line.
func (p *page) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, bytes.Clone(line))
	p.lines = p.lines[max(0, len(p.lines)-100):]
	return len(line), nil
}

// Handler prints the newest line first, with what is counted by now. Lines have pseudonyms: ?address=192.0.2.7 prints the one of
// an address, and how the limits of a policy stand for it.
func (p *page) Handler(limit *middleware.Middleware) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if addr, err := netip.ParseAddr(r.FormValue("address")); err == nil {
			a, err := limit.Decide(r.Context(), middleware.Ask{Identity: middleware.Address(addr), DryRun: true})
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintf(w, "%s is %s\n", addr, a.Pseudonym())
			for _, l := range a.Limits() {
				_, _ = fmt.Fprintf(w, "%s: %d of %d left\n", l.Name, l.Remaining, l.Quota)
			}
			return
		}
		p.refusals.Flush()
		p.mu.Lock()
		lines := slices.Clone(p.lines)
		p.mu.Unlock()
		for _, line := range slices.Backward(lines) {
			_, _ = w.Write(line)
		}
	})
}
