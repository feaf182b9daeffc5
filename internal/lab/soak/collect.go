// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// end compares all accounts that are open with the server, judges the last windows, and closes
// everything. It is not interrupted.
func (w *world) end() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if w.outage.Now()%2 == 1 {
		w.revive(ctx)
	}
	w.settle(ctx, true)
	w.book.close(w.clocks.right.Load()/window + 1)
	w.close()
}

// collect writes down what was found.
func (w *world) collect(f *findings) {
	f.rounds, f.decisions = w.rounds, w.decisions.Load()
	f.reconfigured = w.reconfigured.Load()
	f.led, f.dropped = w.led.Load(), w.dropped.Load()
	f.kills, f.steps, f.hangUps, f.forged = w.kills.Load(), w.steps.Load(), w.hangUps.Load(), w.forged.Load()
	f.forgedRate = float64(f.forged) / max(w.floodTime.Seconds(), 1)
	f.busy, f.atOnce, f.worked, f.moved = w.busy.Load(), w.atOnce.Load(), w.worked.Load(), w.moved.Load()
	f.explainedTokens = w.explainedTokens.Load()
	f.tokenErrors, f.unjust, f.excess = w.tokenErrors.Read(), w.unjust.Read(), w.excess.Read()
	f.broken, f.lostSlots, f.unanswered, f.trouble = w.broken.Read(), w.lostSlots.Read(), w.unanswered.Read(), w.trouble.lines.Read()
	f.servedAtOnce = w.served.most
	f.worst, f.exact = map[string]reached{}, map[string]ledgerFindings{}
	for kind, r := range w.book.worst {
		f.worst[kind] = *r
	}
	for policy, l := range w.ledgers {
		f.exact[policy] = l.findings
	}
	f.quiet, f.flood = w.quiet.read(), w.flood.read()
	f.heap, f.goroutines = w.heap, w.goroutines
}

func (p *phase) read() phaseFindings {
	return phaseFindings{
		rounds: p.rounds.Load(), planned: p.planned.Load(), admitted: p.admitted.Load(),
		p50: p.took.quantile(0.5).Round(time.Microsecond), p99: p.took.quantile(0.99).Round(time.Microsecond),
		cpu: [3]time.Duration{p.computed.quantile(0.25), p.computed.quantile(0.5), p.computed.quantile(0.75)},
	}
}
