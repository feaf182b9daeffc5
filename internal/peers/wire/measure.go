// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// A Cost is what the requests of a shape took.
type Cost struct {
	Whole   float64 // nanoseconds of processor time each
	Above   float64 // how many more than those of the first shape
	Spread  float64 // half of the 95 % confidence interval of Above, by what the sittings say
	Request float64 // bytes more than those of the first shape has
	Answer  float64
}

// A Plan says how much is measured.
type Plan struct {
	Sittings int // each with servers and connections of its own: where they lie in memory is chance
	Rounds   int // of each sitting
	Slice    int // requests of each shape in a round
}

// Measure measures all shapes side by side, on one of Go's processors. The first is what the
// others are compared with. What it returns are medians of sittings, of their medians of rounds.
func Measure(shapes []Shape, v Version, p Plan) ([]Cost, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	costs := make([]Cost, len(shapes))
	wholes, aboves := make([][]float64, len(shapes)), make([][]float64, len(shapes))
	for range p.Sittings {
		taken, err := sitting(shapes, v, p, costs)
		if err != nil {
			return nil, err
		}
		for i := range shapes {
			above := make([]float64, p.Rounds)
			for k := range above {
				above[k] = taken[i][k] - taken[0][k]
			}
			wholes[i], aboves[i] = append(wholes[i], median(taken[i])), append(aboves[i], median(above))
		}
	}
	for i := range costs {
		c := &costs[i]
		c.Whole, c.Above = median(wholes[i]), median(aboves[i])
		c.Spread = spread(aboves[i])
	}
	return costs, nil
}

// sitting returns nanoseconds by shape and round, and notes bytes.
func sitting(shapes []Shape, v Version, p Plan, costs []Cost) ([][]float64, error) {
	seats := make([]*seat, len(shapes))
	order := rand.Perm(len(shapes))
	for _, i := range order {
		t, err := sit(&shapes[i], v)
		if err != nil {
			return nil, err
		}
		defer t.close()
		seats[i] = t
	}
	taken := make([][]float64, len(shapes))
	for range p.Rounds {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			before, ok := turns.ProcessorTime()
			if err := seats[i].send(p.Slice); err != nil {
				return nil, err
			}
			after, _ := turns.ProcessorTime()
			if !ok {
				return nil, errors.New("this system does not tell the processor time of a process")
			}
			taken[i] = append(taken[i], float64((after-before)/time.Nanosecond)/float64(p.Slice))
		}
	}
	request, answer := seats[0].bytes()
	for i, t := range seats {
		costs[i].Request, costs[i].Answer = t.bytes()
		costs[i].Request -= request
		costs[i].Answer -= answer
	}
	return taken, nil
}

// spread returns half of the 95 % confidence interval of the median, by the ranks that a
// binomial leaves: nothing is assumed of how samples are distributed. Of fewer than six it
// is half of their range, which is less sure.
func spread(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	low := max(0, int(float64(len(s))/2-0.98*math.Sqrt(float64(len(s)))))
	return (s[len(s)-1-low] - s[low]) / 2
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
