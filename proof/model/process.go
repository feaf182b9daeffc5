// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"log/slog"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A process is a real middleware, by a clock that is moved by hand.
type process struct {
	*middleware.Middleware
	now  time.Time
	said middleware.Decision
}

// start starts a process.
func (w *compiled) start() (*process, error) {
	p := new(process)
	m, err := middleware.New(w.config(p, 0))
	p.Middleware = m
	return p, err
}

// config is what a process is told, before it is reconfigured and after.
func (w *compiled) config(p *process, variant uint8) middleware.Config {
	cfg := middleware.Config{
		Policy: name, Limits: w.limitsOf(variant), Secrets: secrets,
		TokenTransport: middleware.HeaderOnly, MaxClients: clientsOf, Logger: slog.New(slog.DiscardHandler),
		Now:        func() time.Time { return p.now },
		OnDecision: func(_ context.Context, d middleware.Decision) { p.said = d },
	}
	cfg.Net56Factor, cfg.Net48Factor = w.Networks[0], w.Networks[1]
	if w.Mode != Never && !w.off(variant) {
		mode := [...]middleware.Mode{WhenExhausted: middleware.WhenExhausted, Newcomers: middleware.Newcomers, EveryRequest: middleware.EveryRequest}[w.Mode]
		cfg.Challenge = &middleware.Challenge{Mode: mode, Work: price, Crowd: 1, SalesPerHour: leak, PassTime: w.Memory, Path: "/"}
		if w.Mode == EveryRequest {
			cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true
		}
	}
	return cfg
}

// clientsOf is how many clients a memory is for: far more than a life has, so that no set of its cells is ever full.
const clientsOf = 1024
