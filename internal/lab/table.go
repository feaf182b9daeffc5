// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// writeTable writes what came of all rows, and after it what was not kept.
func writeTable(w io.Writer, sc scale, results []*result) error {
	fmt.Fprintf(w, "N = %d instances behind nginx, L = %d unless a row says otherwise.\n\n", sc.instances, sc.quota)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tthreats\tclient\tsent\tadmitted\tbound\t\tof formula\twork, W\ttallies\thonest: served\trefused\tasked to work\tunjust\tmemory full\tfar from home\tCPU: servers\tclients\theap grew, KiB")
	for _, r := range results {
		mark := "held"
		if !r.holds() {
			mark = "NOT HELD"
		}
		work, tallies := "", ""
		if r.work > 0 {
			work, tallies = fmt.Sprintf("%.0f", r.work), fmt.Sprintf("%d of %d", r.bought, r.most)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n",
			r.row.name, r.row.threats, r.row.client, r.sent, r.admitted, r.bound, mark, r.row.formula, work, tallies,
			r.served, r.refused, r.asked, len(r.unjust), r.explained, r.far,
			r.serverCPU.Round(time.Millisecond), r.labCPU.Round(time.Millisecond), r.grown>>10)
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
	f, ok := w.(*os.File)
	seen := ok && term.IsTerminal(int(f.Fd()))
	return bar{progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(seen))}
}

func (b bar) says(what string) { b.Describe(fmt.Sprintf("%-18s", what)) }
func (b bar) done()            { _ = b.Add(1) } // what is shown is no result
func (b bar) end()             { _ = b.Finish() }
