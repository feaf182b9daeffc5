// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// A Row is a line of the table.
type Row struct {
	What, Before, After, Allowed string
	OK, Report                   bool // Report: a figure without a bound
	Why                          string
	least                        bool // it says what must happen
}

// Say is the row of a figure without a bound.
func Say(what, before, format string, of ...any) Row {
	return Row{What: what, Before: before, After: fmt.Sprintf(format, of...), OK: true, Report: true}
}

// Most is the row of what a bound must not be exceeded by.
func Most(what string, n, bound int64) Row {
	return Row{What: what, After: fmt.Sprint(n), Allowed: fmt.Sprint(bound), OK: n <= bound}
}

// AtLeast is the row of what must have happened.
func AtLeast(what string, n, least int64) Row {
	return Row{What: what, After: fmt.Sprint(n), Allowed: fmt.Sprintf("at least %d", least), OK: n >= least, least: true}
}

// A field of a struct of findings is a [court.Count] with a tag `what`. With a tag `least` it must happen that often; without, never.
type field struct {
	what  string
	least int64
	*court.Count
}

func fields(of any) iter.Seq[field] {
	return func(yield func(field) bool) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if what, is := tag.Lookup("what"); is {
				least, _ := strconv.ParseInt(tag.Get("least"), 10, 64) // none is 0
				if !yield(field{what, least, v.Field(i).Addr().Interface().(*court.Count)}) {
					return
				}
			}
		}
	}
}

// Rows returns a row for each field of a struct that has a tag `what`.
func Rows(of any) (rows []Row) {
	for f := range fields(of) {
		n, why := f.Read()
		r := Most(f.what, n, 0)
		if r.Why = why; f.least > 0 {
			r = AtLeast(f.what, n, f.least)
		}
		rows = append(rows, r)
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

// Flat is the row of a series, and of the growth allowed.
func (s Series) Flat(what, unit string, per, allowed float64) Row {
	grown := s.Quarter(0.75) - s.Quarter(0)
	return Row{
		What: what + ", by quarters", Before: fmt.Sprintf("%.1f%s, %.1f, %.1f", s.Quarter(0)/per, unit, s.Quarter(0.25)/per, s.Quarter(0.5)/per),
		After: fmt.Sprintf("%.1f%s (%+.2f)", s.Quarter(0.75)/per, unit, grown/per), Allowed: fmt.Sprintf("%+.1f%s", allowed/per, unit), OK: len(s) > 0 && grown <= allowed,
	}
}
