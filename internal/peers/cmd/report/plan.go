// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers"
)

type job struct {
	title string
	args  []string // of the test binary
}

// plan returns all jobs, round by round: a busy moment of the machine then hits
// one sample of many limiters rather than all samples of one.
func plan(o options, redis bool) []job {
	var jobs []job
	for round := range o.count {
		all := append(primitives(o), compared(o, round, redis)...)
		if round == 0 {
			all = append(all, heaps(o, redis)...) // bytes do not vary
		}
		for _, j := range all {
			j.title = fmt.Sprintf("round %d of %d: %s", round+1, o.count, j.title)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func primitives(o options) []job {
	return []job{
		{"the scale", benchmark("^Benchmark(RawTwoHMACs|MAC512|Token)$", 1, o.benchtime)},
		{"forged tokens", benchmark("^BenchmarkForged$", 1, o.benchtime)},
	}
}

// compared are the limiters, on one processor and on two. Introducing a million
// clients to a limiter in another process takes a minute, and is done once.
func compared(o options, round int, redis bool) []job {
	var jobs []job
	for cores := 1; cores <= min(2, runtime.NumCPU()); cores++ {
		for _, l := range peers.Limiters() {
			if l.Remote && !redis {
				continue
			}
			clients := "1,100000,1000000"
			switch {
			case o.quick:
				clients = "1,10000"
			case l.Remote && (round > 0 || cores > 1):
				clients = "1,100000"
			}
			args := benchmark("^Benchmark(Allowed|Refused)$/^limiter="+regexp.QuoteMeta(l.Name)+"$", cores, o.benchtime)
			jobs = append(jobs, job{fmt.Sprintf("%s on %d", l.Name, cores), append(args, "-clients="+clients)})
		}
	}
	return jobs
}

// heaps are the limiters' memories; ours with ten million clients as well.
func heaps(o options, redis bool) []job {
	var jobs []job
	for _, l := range peers.Limiters() {
		if l.Remote && !redis || l.Unlimited {
			continue
		}
		clients := []string{"100000", "1000000"}
		switch {
		case o.quick:
			clients = clients[:1]
		case l.Name == peers.Ours:
			clients = append(clients, "10000000")
		}
		args := []string{"-test.run=^$", "-test.bench=^BenchmarkHeap$/^limiter=" + regexp.QuoteMeta(l.Name) + "$", "-test.benchtime=1x"}
		jobs = append(jobs, job{"heap of " + l.Name, append(args, "-heap="+strings.Join(clients, ","))})
	}
	return jobs
}

func benchmark(pattern string, cores int, benchtime time.Duration) []string {
	return []string{
		"-test.run=^$", "-test.bench=" + pattern, "-test.timeout=1h",
		fmt.Sprintf("-test.cpu=%d", cores), "-test.benchtime=" + benchtime.String(),
	}
}
