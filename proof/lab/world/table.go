// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"text/tabwriter"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// A Count counts something that must happen.
type Count struct{ atomic.Int64 }

// A Row is a line of the table.
type Row struct {
	What, Before, After, Allowed string
	OK, Report                   bool // Report: a figure without a bound
	Why                          string
}

// Say is the row of a figure without a bound.
func Say(what, before, format string, of ...any) Row {
	return Row{What: what, Before: before, After: fmt.Sprintf(format, of...), OK: true, Report: true}
}

// Most is the row of what a bound must not be exceeded by, or must be reached, unless the run was ended before.
func Most(what string, n, bound int64, reached, interrupted bool) Row {
	r := Row{What: what, After: fmt.Sprint(n), Allowed: fmt.Sprint(bound), OK: n <= bound}
	if reached {
		r.Allowed += ", reached"
		r.OK = n == bound || interrupted && r.OK
	}
	return r
}

// AtLeast is the row of what must have happened, unless the run was ended before.
func AtLeast(what string, n, least int64, interrupted bool) Row {
	return Row{What: what, After: fmt.Sprint(n), Allowed: fmt.Sprintf("at least %d", least), OK: interrupted || n >= least}
}

// A field of a struct of findings has a tag `what`. With a tag `least` it must happen that often; without, never.
type field struct {
	what  string
	least int64
	value any // a *Count, *court.Complaints or *int64
}

func fields(of any) iter.Seq[field] {
	return func(yield func(field) bool) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if what, is := tag.Lookup("what"); is {
				least, _ := strconv.ParseInt(tag.Get("least"), 10, 64) // none is 0
				if !yield(field{what, least, v.Field(i).Addr().Interface()}) {
					return
				}
			}
		}
	}
}

// Rows returns a row for each field of a struct that has a tag `what`. A [Count] or an integer with a tag `least` must
// have happened that often. Another integer and [Complaints] must be none.
func Rows(of any, prefix string, interrupted bool) (rows []Row) {
	for f := range fields(of) {
		var n int64
		var why string
		switch x := f.value.(type) {
		case *Count:
			n = x.Load()
		case *court.Complaints:
			n, why = x.Read()
		case *int64:
			n = *x
		}
		if f.least > 0 {
			rows = append(rows, AtLeast(prefix+f.what, n, f.least, interrupted))
		} else {
			rows = append(rows, Row{What: prefix + f.what, After: fmt.Sprint(n), Allowed: "0", OK: n == 0, Why: why})
		}
	}
	return rows
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

// Flat is the row of a series that has grown, and of the growth allowed.
func (s Series) Flat(what, unit string, per, grown, allowed float64) Row {
	return Row{
		What: what + ", by quarters", Before: fmt.Sprintf("%.1f%s, %.1f, %.1f", s.Quarter(0)/per, unit, s.Quarter(0.25)/per, s.Quarter(0.5)/per),
		After: fmt.Sprintf("%.1f%s (%+.2f)", s.Quarter(0.75)/per, unit, grown/per), Allowed: fmt.Sprintf("%+.1f%s", allowed/per, unit), OK: len(s) > 0 && grown <= allowed,
	}
}
