// SPDX-License-Identifier: Apache-2.0

// Command wire measures what the bytes of our fields cost in a real server, and prints
// Markdown: see package wire beside it.
//
//	go run ./internal/peers/cmd/wire
//	go run ./internal/peers/cmd/wire -quick
//
// It takes a minute; with -quick some seconds, which tell only whether it works.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/tallystick/tallystick/internal/peers/machine"
	"github.com/tallystick/tallystick/internal/peers/markdown"
	"github.com/tallystick/tallystick/internal/peers/wire"
)

func main() {
	flags := flag.NewFlagSet("wire", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "few rounds")
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // flags has said why
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "wire: unexpected argument %q\n", flags.Arg(0))
		os.Exit(2)
	}
	p := wire.Plan{Sittings: 25, Rounds: 20, Slice: 100}
	if *quick {
		p = wire.Plan{Sittings: 1, Rounds: 3, Slice: 10}
	}
	if err := write(os.Stdout, p); err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

// write measures and prints.
func write(w io.Writer, p wire.Plan) error {
	shapes, err := shapes()
	if err != nil {
		return err
	}
	one, err := wire.Measure(shapes, wire.HTTP1, p)
	if err != nil {
		return err
	}
	two, err := wire.Measure(shapes, wire.HTTP2, p)
	if err != nil {
		return err
	}
	t := markdown.New("", "", "what is sent", "bytes, HTTP/1.1", "ns", "bytes, HTTP/2", "ns")
	measured := len(shapes) - 2*len(pads)
	for i := 1; i < measured; i++ {
		t.Row(shapes[i].Name,
			bytes(one[i]), nanos(one[i].Above, one[i].Spread), bytes(two[i]), nanos(two[i].Above, two[i].Spread))
	}
	for k, where := range []string{"each 50 characters more of a token in the answer", "the same in the request"} {
		each1, spread1 := slope(one[measured+k:])
		each2, spread2 := slope(two[measured+k:])
		t.Row(where, "50", nanos(50*each1, 50*spread1), "", nanos(50*each2, 50*spread2))
	}
	_, err = fmt.Fprintf(w, "%s; medians of %d sittings of %d requests. A bare request took %.0f ns over HTTP/1.1, %.0f over HTTP/2, both ends together.\n\n%s",
		machine.Describe(time.Now()), p.Sittings, p.Rounds*p.Slice, one[0].Whole, two[0].Whole, t)
	return err
}

func bytes(c wire.Cost) string {
	return fmt.Sprintf("%d + %d", int(math.Round(c.Request)), int(math.Round(c.Answer))) // no minus before a zero
}

func nanos(above, spread float64) string { return fmt.Sprintf("%.0f ±%.0f", above, spread) }

// slope returns by how much costs rise for each character of a value, of every second of costs,
// which are those of pads: the line of least squares, and what the spread of each leaves of it.
func slope(costs []wire.Cost) (each, spread float64) {
	mean, all, rises, strays := 0.0, 0.0, 0.0, 0.0
	for _, n := range pads {
		mean += float64(n) / float64(len(pads))
	}
	for i, n := range pads {
		x := float64(n) - mean
		all += x * x
		rises += x * costs[2*i].Above
		strays += x * x * costs[2*i].Spread * costs[2*i].Spread
	}
	return rises / all, math.Sqrt(strays) / all
}
