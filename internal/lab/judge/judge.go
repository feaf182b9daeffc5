// SPDX-License-Identifier: Apache-2.0

// Package judge is what long runs are judged by: what was found wrong, what may not grow, what a
// quota was meanwhile, and the table that says so.
package judge

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
)

// Complaints count what was found wrong, and keep the first.
type Complaints struct {
	mu    sync.Mutex
	n     int64
	first string
}

// Note notes one.
func (c *Complaints) Note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == 1 {
		c.first = what
	}
}

// Read returns what was noted.
func (c *Complaints) Read() Found {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Found{c.n, c.first}
}

// Found is how often something was, and the first.
type Found struct {
	N     int64
	First string
}

// An Outage is when something does not stand, or others do not know yet that it does.
type Outage struct {
	state atomic.Int64 // even: it stands; odd: it does not
}

// Now is for Stood.
func (o *Outage) Now() int64 { return o.state.Load() }

// Stood says whether it stood all the time since Now said this.
func (o *Outage) Stood(since int64) bool { return since%2 == 0 && o.state.Load() == since }

// Change is the beginning or the end of an outage.
func (o *Outage) Change() { o.state.Add(1) }

// A Series is a number that is looked at again and again, and that must not grow.
type Series []float64

// Growth is by how much it grew over its second half: the slope of the straight line that is
// nearest to it, times its length.
func (s Series) Growth() float64 {
	half := s[len(s)/2:]
	if len(half) < 3 {
		return 0
	}
	n := float64(len(half))
	var sx, sy, sxx, sxy float64
	for i, y := range half {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx) * (n - 1)
}

// Quarter is the mean of the quarter that begins at a part of it.
func (s Series) Quarter(from float64) float64 {
	if len(s) == 0 {
		return 0
	}
	at := int(from * float64(len(s)))
	some := s[at:min(len(s), at+max(1, len(s)/4))]
	sum := 0.0
	for _, y := range some {
		sum += y
	}
	return sum / float64(len(some))
}

// A Row is a line of the table.
type Row struct {
	What, Before, After, Allowed string
	OK, Report                   bool // Report: a figure without a bound
	Why                          string
}

// None is the row of what must not have been found.
func None(what string, x Found) Row {
	return Row{What: what, After: fmt.Sprint(x.N), Allowed: "0", OK: x.N == 0, Why: x.First}
}

// AtLeast is the row of what must have happened, if nobody has ended the run before.
func AtLeast(what string, n, least int64, interrupted bool) Row {
	return Row{What: what, After: fmt.Sprint(n), Allowed: fmt.Sprintf("at least %d", least), OK: interrupted || n >= least}
}

// Say is the row of a figure without a bound.
func Say(what, before, after string) Row {
	return Row{What: what, Before: before, After: after, OK: true, Report: true}
}

// Holds reports whether all does.
func Holds(rows []Row) bool { return !slices.ContainsFunc(rows, func(r Row) bool { return !r.OK }) }

// Write writes the table, and after it what did not hold.
func Write(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tbefore\tafter\tallowed\t")
	for _, r := range rows {
		verdict := "ok"
		switch {
		case !r.OK:
			verdict = "FAILED"
		case r.Report:
			verdict = ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.What, r.Before, r.After, r.Allowed, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if !r.OK {
			fmt.Fprintf(w, "\nFAILED: %s. %s\n", r.What, r.Why)
		}
	}
	return nil
}
