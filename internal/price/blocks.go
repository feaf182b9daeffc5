package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/tallystick/tallystick/storeless"
)

// portBlocks are what the middleware cuts an address into.
const portBlocks = 16

// block is an address, to one that is in the n-th of its blocks.
func (s *shop) block(n int64) []storeless.Buyer {
	all := s.v4()
	all[0].Block = uint8(1 + n%portBlocks)
	return all
}

// blocksOf is a shared address whose newcomers are in the first so many blocks, evenly. An
// attacker buys in the first of them in turn.
func blocksOf(newcomers, attacker int64) place {
	return place{"an address with port blocks",
		func(s *shop) func(*rand.Rand) []storeless.Buyer {
			return func(r *rand.Rand) []storeless.Buyer { return s.block(r.Int64N(newcomers)) }
		},
		func(s *shop) func(int64) []storeless.Buyer {
			return func(n int64) []storeless.Buyer { return s.block(n % attacker) }
		},
	}
}

// blocksTable: what the blocks of an address are worth to its newcomers, and to an attacker.
func blocksTable() table {
	t := table{name: "blocks", head: []string{"newcomers", "attacker", "100 a day", "500 a day", "its tallies a day"}}
	add := func(p place, name, attacker string, hourly int64) {
		t.rows = append(t.rows, row{quick: hourly == 0, make: func() []string {
			cells, most := []string{name, attacker}, int64(0)
			for _, size := range []struct {
				daily int64
				runs  int
			}{{100, 4}, {500, 1}} {
				g := siege{p, size.daily, 60 * second, hourly * vector, size.runs}
				c, tallies := g.fared()
				cells, most = append(cells, c.let()), max(most, tallies)
			}
			return append(cells, figure(most))
		}})
	}
	add(oneAddress, "without `PortBlocks`", "none", 0)
	add(oneAddress, "without `PortBlocks`", "360 s an hour", 360)
	add(blocksOf(portBlocks, 1), "in 16 blocks", "none", 0)
	for _, n := range []int64{1, 2, 4, portBlocks} {
		add(blocksOf(portBlocks, n), "in 16 blocks", fmt.Sprintf("360 s an hour, in %d of them", n), 360)
	}
	add(blocksOf(4, 1), "in 4 blocks", "none", 0)
	add(blocksOf(1, 1), "in 1 block", "none", 0)
	return t
}
