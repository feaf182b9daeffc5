// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The plot and its SVG have the same units.
const (
	plotWidth  = 640
	plotHeight = 240
)

// A picture is an arena as its template draws it.
type picture struct {
	plan
	Boxes   []boxed
	Clients []*contestant
	Broken  string
	Apart   bool // instances that are to hear each other have not
	Width   int
	Height  int
	Curves  []curve
	Lines   []level
	Windows []int // where windows begin
}

// A curve is the line of a client.
type curve struct {
	Class, Path string
}

// A level is a dashed line: the bound of some clients. Its label begins at X.
type level struct {
	X     int
	Y     float64
	Label string
}

// played is the picture after a number of frames.
func (a *arena) played(frames int) picture {
	for range frames {
		a.advance()
	}
	return a.picture()
}

func (a *arena) picture() picture {
	p := picture{plan: a.plan, Boxes: a.boxes, Clients: a.clients, Broken: a.broken(), Apart: a.apart(), Width: plotWidth, Height: plotHeight}
	top := slices.MaxFunc(a.clients, func(c, d *contestant) int { return cmp.Compare(max(c.Bound, c.Most), max(d.Bound, d.Most)) })
	scale := float64(plotHeight-24) / float64(max(top.Bound, top.Most))
	y := func(admitted int64) float64 { return plotHeight - 1 - float64(admitted)*scale }
	from := max(0, a.frame-shownFrames)
	x := func(frame int) float64 { return float64(max(0, frame-from)) * plotWidth / float64(shownFrames) }
	for at := (from + windowFrames - 1) / windowFrames * windowFrames; at <= a.frame; at += windowFrames {
		p.Windows = append(p.Windows, int(x(at)))
	}
	for i, c := range a.clients {
		if i == 0 || c.Bound != a.clients[i-1].Bound {
			next := level{150, y(c.Bound), fmt.Sprintf("%s = %d", c.Formula, c.Bound)}
			if n := len(p.Lines); n > 0 && p.Lines[n-1].Y-next.Y < 26 { // two labels would lie on each other
				next.X = 400
			}
			p.Lines = append(p.Lines, next)
		}
		if len(c.line) == 0 {
			continue
		}
		var path strings.Builder
		fmt.Fprintf(&path, "M%.1f %.1f", x(c.line[0].frame), y(c.line[0].admitted))
		for _, to := range c.line[1:] {
			fmt.Fprintf(&path, "H%.1fV%.1f", x(to.frame), y(to.admitted))
		}
		fmt.Fprintf(&path, "H%.1f", x(a.frame))
		p.Curves = append(p.Curves, curve{c.Class, path.String()})
	}
	return p
}
