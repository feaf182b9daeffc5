// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"runtime/metrics"
	"time"
)

// A meter reads what a slice takes. Reading it allocates nothing and stops nobody.
type meter struct {
	now, then [3]metrics.Sample
	cpu       time.Duration
	began     time.Time
}

// The metrics of package runtime, as they stand in a meter.
const (
	allocated  = iota // bytes
	cycles            // collections that have ended
	collecting        // seconds of processors that the collector has used
)

func newMeter() *meter {
	var m meter
	for _, s := range []*[3]metrics.Sample{&m.now, &m.then} {
		s[allocated].Name = "/gc/heap/allocs:bytes"
		s[cycles].Name = "/gc/cycles/total:gc-cycles"
		s[collecting].Name = "/cpu/classes/gc/total:cpu-seconds"
	}
	return &m
}

func (m *meter) start() {
	metrics.Read(m.then[:])
	m.began = time.Now()
	m.cpu, _ = ProcessorTime() // Measure has asked whether it can be told
}

func (m *meter) stop() slice {
	cpu, _ := ProcessorTime()
	wall := time.Since(m.began)
	metrics.Read(m.now[:])
	return slice{
		cpu:   cpu - m.cpu,
		wall:  wall,
		bytes: m.now[allocated].Value.Uint64() - m.then[allocated].Value.Uint64(),
		collected: m.now[cycles].Value.Uint64() != m.then[cycles].Value.Uint64() ||
			m.now[collecting].Value.Float64() != m.then[collecting].Value.Float64(),
	}
}
