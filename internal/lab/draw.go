// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"path/filepath"

	"github.com/tallystick/tallystick/internal/lab/plots"
)

// draw writes the plots into a folder.
func draw(dir string, results []*result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var yields []plots.Line
	bars := plots.Pairs{Names: [2]string{"admitted", "bound"}}
	for _, r := range results {
		bars.Of = append(bars.Of, r.row.name)
		bars.First = append(bars.First, float64(r.admitted))
		bars.Second = append(bars.Second, float64(r.bound))
		if len(r.curve) == 0 {
			continue
		}
		got := plots.Line{Name: r.row.name}
		for _, p := range r.curve {
			got.X, got.Y = append(got.X, p.work), append(got.Y, p.admitted)
		}
		yields = append(yields, got, r.promised())
	}
	if err := file(filepath.Join(dir, "admitted.svg"), func(f *os.File) error {
		return bars.Write(f, "What each attacker was let in for", "requests in the window")
	}); err != nil || len(yields) == 0 {
		return err
	}
	return file(filepath.Join(dir, "yield.svg"), func(f *os.File) error {
		return plots.Lines(f, "What work is worth", "work, in prices of the first tally", "requests in the window", false, yields)
	})
}

// promised is the bound of a farm over its work.
func (r *result) promised() plots.Line {
	line := plots.Line{Name: r.row.name + ", at most", Dashed: true}
	n, crowd, free := float64(r.instances), float64(r.crowd), float64(r.instances*r.quota)
	if r.row.name != "farm" {
		free = 0
	}
	for i := range 101 {
		work := r.work * float64(i) / 100
		line.X = append(line.X, work)
		line.Y = append(line.Y, free+float64(r.worth)*n*crowd*math.Log2(1+15./8*work/(n*crowd)))
	}
	return line
}

func file(name string, write func(*os.File) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
