// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// gauges are the instruments that are read from [middleware.Stats].
type gauges struct {
	meter metric.Meter

	utilization     metric.Float64ObservableGauge
	inherited       metric.Int64ObservableCounter
	inheritedQuotas metric.Float64ObservableCounter
	saturations     metric.Int64ObservableCounter

	challenges metric.Int64ObservableCounter
	work       metric.Int64ObservableCounter
	highest    metric.Int64ObservableGauge
	proofs     metric.Int64ObservableCounter

	tokens  metric.Int64ObservableCounter
	secrets metric.Int64ObservableGauge

	busy metric.Int64ObservableGauge

	down     metric.Int64ObservableGauge
	refusing metric.Int64ObservableGauge
	taken    metric.Float64ObservableGauge
	late     metric.Int64ObservableCounter

	reloaded   metric.Int64ObservableGauge
	reloadedAt metric.Float64ObservableGauge

	peers     metric.Int64ObservableGauge
	gone      metric.Int64ObservableCounter
	strangers metric.Int64ObservableCounter
	records   metric.Int64ObservableGauge
	evicted   metric.Int64ObservableCounter
	waited    metric.Int64ObservableCounter
	waitedOut metric.Int64ObservableCounter
	slack     metric.Int64ObservableGauge
}

func newGauges(meter metric.Meter) (*gauges, error) {
	g := &gauges{meter: meter}
	var errs [25]error
	g.utilization, errs[0] = meter.Float64ObservableGauge("tallystick.memory.utilization", metric.WithUnit("1"),
		metric.WithDescription("The share of the memory's cells that are in use, of the limit that has the most."))
	g.inherited, errs[1] = meter.Int64ObservableCounter("tallystick.memory.inheritances", metric.WithUnit("{request}"),
		metric.WithDescription("Requests of clients that a full memory did not know, and that began with a count which was not theirs."))
	g.inheritedQuotas, errs[2] = meter.Float64ObservableCounter("tallystick.memory.inheritances.quotas", metric.WithUnit("{quota}"),
		metric.WithDescription("What those clients began with, in quotas."))
	g.saturations, errs[3] = meter.Int64ObservableCounter("tallystick.memory.saturations", metric.WithUnit("{request}"),
		metric.WithDescription("Sales, and requests with a proof, that were refused because the memory had no room for what was paid."))
	g.challenges, errs[4] = meter.Int64ObservableCounter("tallystick.challenges", metric.WithUnit("{challenge}"),
		metric.WithDescription("Challenges that were issued."))
	g.work, errs[5] = meter.Int64ObservableCounter("tallystick.challenges.work", metric.WithUnit("{hash}"),
		metric.WithDescription("What they asked for in all, in expected hashes."))
	g.proofs, errs[6] = meter.Int64ObservableCounter("tallystick.proofs", metric.WithUnit("{proof}"),
		metric.WithDescription("Proofs of work, by what came of them."))
	g.down, errs[7] = meter.Int64ObservableGauge("tallystick.exact.down", metric.WithUnit("{counter}"),
		metric.WithDescription("1 while the exact counter does not answer, else 0."))
	g.taken, errs[8] = meter.Float64ObservableGauge("tallystick.exact.utilization", metric.WithUnit("1"),
		metric.WithDescription("The share of the places for calls to the exact counter that are taken."))
	g.busy, errs[9] = meter.Int64ObservableGauge("tallystick.busy", metric.WithUnit("{instance}"),
		metric.WithDescription("1 while the instance is busy and asks newcomers for work, else 0."))
	g.refusing, errs[10] = meter.Int64ObservableGauge("tallystick.exact.refusing", metric.WithUnit("{counter}"),
		metric.WithDescription("1 while the exact counter answers and has refused most requests of most of ten seconds as load, else 0."))
	g.late, errs[11] = meter.Int64ObservableCounter("tallystick.exact.refunds.late", metric.WithUnit("{charge}"),
		metric.WithDescription("Charges that came back too late, and so did not."))
	g.reloaded, errs[12] = meter.Int64ObservableGauge("tallystick.reload.success", metric.WithUnit("{reload}"),
		metric.WithDescription("1 if the last reload of the policy file has succeeded, else 0."))
	g.reloadedAt, errs[13] = meter.Float64ObservableGauge("tallystick.reload.time", metric.WithUnit("s"),
		metric.WithDescription("When a reload has succeeded last, in Unix time."))
	g.tokens, errs[14] = meter.Int64ObservableCounter("tallystick.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that were shown, by what came of them."))
	g.secrets, errs[15] = meter.Int64ObservableGauge("tallystick.secret", metric.WithUnit("{secret}"),
		metric.WithDescription("1 for each secret that the instance has, by its key id, which is public."))
	g.highest, errs[16] = meter.Int64ObservableGauge("tallystick.challenges.work.highest", metric.WithUnit("{hash}"),
		metric.WithDescription("The most that a challenge has asked for in this minute or the one before, in expected hashes."))
	g.peers, errs[17] = meter.Int64ObservableGauge("tallystick.peers", metric.WithUnit("{peer}"),
		metric.WithDescription("Peers that this process hears, and those that are silent: late, or on its list and not heard."))
	g.gone, errs[18] = meter.Int64ObservableCounter("tallystick.peers.gone", metric.WithUnit("{peer}"),
		metric.WithDescription("Peers that were silent for 10 seconds."))
	g.strangers, errs[19] = meter.Int64ObservableCounter("tallystick.peers.strangers", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections to the port of peers that have not shown a secret."))
	g.records, errs[20] = meter.Int64ObservableGauge("tallystick.peers.records", metric.WithUnit("{record}"),
		metric.WithDescription("Records of what the peers have admitted."))
	g.evicted, errs[21] = meter.Int64ObservableCounter("tallystick.peers.records.evicted", metric.WithUnit("{record}"),
		metric.WithDescription("Records that made room for others while they counted."))
	g.waited, errs[22] = meter.Int64ObservableCounter("tallystick.peers.requests.waited", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were decided when peers had answered, or refused because none had in time."))
	g.waitedOut, errs[23] = meter.Int64ObservableCounter("tallystick.peers.requests.busy", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were refused because no peer had answered in time."))
	g.slack, errs[24] = meter.Int64ObservableGauge("tallystick.peers.slack", metric.WithUnit("{request}"),
		metric.WithDescription("The most of one tally that this process has admitted and not all peers have heard of."))
	return g, errors.Join(errs[:]...)
}
