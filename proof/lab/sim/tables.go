// SPDX-License-Identifier: Apache-2.0

// Package sim plays clients against the code that serves them in production, under a clock
// that is moved by hand: attackers beside the bound that the documentation prints, honest
// clients, and a day of a million clients. It makes the tables of proof/lab/README.md.
//
// What depends on the middleware is played against a fleet of package fleet. Where a million clients come, the decision of
// internal/limiter is called itself. Work is told in multiples of W, the price of the first tally.
//
// All that chance decides here comes from a seed, so that the same tables are made again.
// What chance decides in the limiter, as which cell of its memory counts a client, does not
// show: where it could, the simulation names the cells itself.
package sim

import (
	"context"
	"flag"
	"io"

	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/rows"
)

// Seed is the seed of the printed tables.
const Seed rows.Seed = 1

// Tables are all that is made here: the tables of bounds.md and of the README first.
func Tables(s rows.Seed) []pages.Made {
	thousand := attackTable(s, "thousand", []int64{1000}, false)
	thousand.Alone = true
	return append(rows.Tables(), attackTable(s, "admitted", sizes, true), thousand,
		yieldTable(s), honestTable(s), griefTable(s), busyTable(), dayTable(s), fillingTable(s))
}

// Run makes tables, as its arguments say.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	seed := flags.Uint64("seed", uint64(Seed), "where chance begins")
	return pages.Run(flags, args, stdout, stderr, func() []pages.Made { return Tables(rows.Seed(*seed)) })
}
