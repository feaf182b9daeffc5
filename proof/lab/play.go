// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tallystick/tallystick/proof/lab/house"
)

type result struct {
	row                           row
	sent, admitted, bound, unjust int64
	first                         string // unjust one
	figures                       []any  // without a bound
}

// holds reports whether all that is promised was kept.
func (r *result) holds() bool { return r.admitted <= r.bound && r.unjust == 0 }

// play plays one row, for the pass-th time.
func play(ctx context.Context, servers *house.Cluster, sc scale, r row, number, pass int, on func() bool) (*result, error) {
	route := r.routeOf(sc)
	s := &scene{
		row: r.name, scale: sc, on: on, silent: map[string]time.Time{}, there: map[string]bool{},
		Ctx: ctx, House: servers, Net: [2]byte{127, byte(16 + number)}, Oracle: NewOracle(r.name, route),
	}
	s.hosts.Store(uint32(pass) << 9) // the servers know none of the addresses
	for _, p := range servers.Instances {
		s.where = append(s.where, p.Where)
	}
	s.named = s.Dialer("127.0.0.1")
	last, err := servers.State()
	if err != nil {
		return nil, err
	}
	s.began, s.anew = servers.Clock.Load(), servers.Anew.Load()
	switch r.honest {
	case meanwhile:
		r.attack(s)
	case before:
		s.honestly()
		r.attack(s)
	case after:
		r.attack(s)
		s.honestly()
	case always:
		ctx, done := context.WithCancel(s.Ctx)
		together(func() { defer done(); r.attack(s) }, func() {
			for s.honestly(); ctx.Err() == nil; s.honestly() {
				s.pause(s.scale.pause)
			}
		})
	default:
		together(func() { r.attack(s) }, s.honestly)
		if r.honest == again {
			s.honestly()
		}
	}
	s.Rest()
	end, err := servers.State()
	if err != nil {
		return nil, err
	}
	attacker := r.name + house.Attacker
	got := &result{row: r, sent: s.sent.Load(), admitted: end.Counts[attacker][house.Admitted] - last.Counts[attacker][house.Admitted]}
	if r.bound == nil {
		got.admitted, got.bound = s.admitted, s.bound
	} else {
		got.bound = r.bound(s)
	}
	work, tallies, gain := "", "", s.gained()
	if gain.Spent > 0 {
		work = fmt.Sprint(gain.Spent / leastWork)
		tallies = fmt.Sprintf("%d of %d", gain.Bought, levelOf(s.n(), max(1, route.Crowd), gain.Spent, s.seen()))
	}
	explained, waited := s.Verdict(), int64(end.Waited-last.Waited)
	got.unjust, got.first = s.Unjust.Read()
	took := strings.Trim(fmt.Sprint(slowest(last.Took, end.Took, waited)), "[]") // until the requests that waited were decided
	got.figures = []any{
		work, tallies, s.Served.Load(), s.Refused.Load(), s.Asked.Load(), got.unjust, explained, s.rounds, waited, took, s.Busy.Load(), s.late,
		(int64(end.Heap) - int64(last.Heap)) >> 10,
	}
	// A row in which nothing happened would hold whatever the servers do.
	if got.bound > 0 && got.admitted == 0 {
		s.Fail(errors.New("the attacker was never let in, which proves nothing"))
	}
	if s.Served.Load() == 0 && r.route.MaxClients == 0 && r.honest != meanwhile { // of a full memory no client is promised anything
		s.Fail(errors.New("no honest client was served, which proves nothing"))
	}
	if err := s.Failed(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return got, nil
}

// slowest returns the times of the slowest decisions between two moments: the median, the 99th percentile and the maximum.
// They are the ones that waited.
func slowest(before, after map[int]int64, so int64) (took []time.Duration) {
	var each []int
	for ms, n := range after {
		each = append(each, slices.Repeat([]int{ms}, int(n-before[ms]))...)
	}
	slices.Sort(each)
	each = each[max(0, len(each)-int(so)):]
	for _, percent := range []int{50, 99, 100} {
		if n := len(each); n > 0 {
			took = append(took, time.Duration(each[(n*percent+99)/100-1])*time.Millisecond)
		}
	}
	return took
}

// writeTable writes what came of all rows, and after it what was not kept.
func writeTable(w io.Writer, sc scale, results []*result, faults []house.Fault) error {
	fmt.Fprintf(w, "N = %d instances behind nginx, L = %d unless a row says otherwise.\n\n", sc.instances, sc.quota)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tthreats\tclient\tsent\tadmitted\tbound\t\tof formula\twork, W\ttallies\thonest: served\trefused\tasked to work\tunjust\tmemory full\trounds\twaited\tfor\tbusy\tlate\theap grew, KiB")
	for _, r := range results {
		mark := "held"
		if !r.holds() {
			mark = "NOT HELD"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s", r.row.name, r.row.threats, r.row.client, r.sent, r.admitted, r.bound, mark, r.row.formula)
		for _, f := range r.figures {
			fmt.Fprintf(t, "\t%v", f)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range faults {
		fmt.Fprintf(w, "\nFAILED: %s. %s\n", f.What, f.Why)
	}
	for _, r := range results {
		if r.admitted > r.bound {
			fmt.Fprintf(w, "\nrow %s: EXCEEDED: admitted %d, at most %d are promised: %s\n", r.row.name, r.admitted, r.bound, r.row.formula)
		}
		if r.unjust > 0 {
			fmt.Fprintf(w, "\nrow %s: %d honest requests refused that had room, or served wrongly, the first: %s\n", r.row.name, r.unjust, r.first)
		}
	}
	return nil
}
