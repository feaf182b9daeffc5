// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
)

// writeTable writes what came of all rows, and after it what was not kept.
func writeTable(w io.Writer, sc scale, results []*result) error {
	fmt.Fprintf(w, "N = %d instances behind nginx, L = %d unless a row says otherwise.\n\n", sc.instances, sc.quota)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tthreats\tclient\tsent\tadmitted\tbound\t\tof formula\twork, W\ttallies\thonest: served\trefused\tasked to work\tunjust\tmemory full\tCPU: servers\tclients\theap, MiB")
	for _, r := range results {
		mark := "held"
		if !r.holds() {
			mark = "NOT HELD"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%.1f\n",
			r.row.name, r.row.threats, r.row.client, r.sent, r.admitted, r.bound, mark, r.row.formula, r.work, r.bought,
			r.served, r.refused, r.asked, len(r.unjust), r.explained,
			r.serverCPU.Round(time.Millisecond), r.labCPU.Round(time.Millisecond), float64(r.heap)/(1<<20))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.admitted > r.bound {
			fmt.Fprintf(w, "\nrow %s: EXCEEDED: admitted %d, at most %d are promised: %s\n", r.row.name, r.admitted, r.bound, r.row.formula)
		}
		if len(r.unjust) > 0 {
			fmt.Fprintf(w, "\nrow %s: %d honest requests refused that had room, the first: %s\n", r.row.name, len(r.unjust), r.unjust[0])
		}
	}
	return nil
}

// A bar shows how far the lab is.
type bar struct{ *progressbar.ProgressBar }

func newBar(w io.Writer, n int) bar {
	return bar{progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())}
}

func (b bar) says(what string) { b.Describe(fmt.Sprintf("%-18s", what)) }
func (b bar) done()            { _ = b.Add(1) } // what is shown is no result
func (b bar) end()             { _ = b.Finish() }
