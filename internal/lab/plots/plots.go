// SPDX-License-Identifier: Apache-2.0

// Package plots draws the pictures of the lab and of the simulation, as SVG.
package plots

import (
	"bytes"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a picture, which browsers scale.
const width, height = 8 * vg.Inch, 5 * vg.Inch

// margin is for letters that are wider where the font is another one.
const margin = 24

// colours are told apart by people who see red and green as one (Okabe and Ito).
var colours = [...]color.RGBA{
	{R: 0, G: 114, B: 178, A: 255}, {R: 213, G: 94, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255},
	{R: 204, G: 121, B: 167, A: 255}, {R: 230, G: 159, B: 0, A: 255}, {R: 86, G: 180, B: 233, A: 255},
}

// A Line is a series of points.
type Line struct {
	Name   string
	X, Y   []float64 // as many of one as of the other
	Dashed bool      // for what is promised, beside what was measured
}

// Lines draws lines over two axes. With logY no Y may be zero.
func Lines(w io.Writer, title, x, y string, logY bool, lines []Line) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	if logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, line := range lines {
		points := make(plotter.XYs, len(line.X))
		for k := range line.X {
			points[k].X, points[k].Y = line.X[k], line.Y[k]
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		l.Color, l.Width = colours[i%len(colours)], vg.Points(1.5)
		if line.Dashed {
			l.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
		}
		p.Add(l)
		p.Legend.Add(line.Name, l)
	}
	return write(w, p)
}

// Pairs are two numbers of each of some things.
type Pairs struct {
	Names         [2]string // of the numbers
	Of            []string  // the things
	First, Second []float64
}

// Write draws two bars for each thing, from the top of the picture down.
func (b Pairs) Write(w io.Writer, title, x string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, x
	thick := vg.Points(5)
	for i, values := range []plotter.Values{b.First, b.Second} {
		values = slices.Clone(values)
		slices.Reverse(values) // the axis goes up
		bars, err := plotter.NewBarChart(values, thick)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colours[i], 0
		bars.Offset = thick * vg.Length(1-2*i) / 2
		p.Add(bars)
		p.Legend.Add(b.Names[i], bars)
	}
	of := slices.Clone(b.Of)
	slices.Reverse(of)
	p.NominalY(of...)
	return write(w, p)
}

// write is [plot.Plot.WriterTo] without its table of formats, which links the encoders of all of them.
func write(w io.Writer, p *plot.Plot) error {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
