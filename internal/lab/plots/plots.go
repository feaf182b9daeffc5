// SPDX-License-Identifier: Apache-2.0

// Package plots draws the pictures of the lab and of the simulation, as SVG.
package plots

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The usual size of a picture, which browsers scale.
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
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(written), plot.TickerFunc(written)
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
	return write(w, p, height)
}

// Pairs are two numbers of each of some things.
type Pairs struct {
	Names         [2]string // of the numbers
	Of            []string  // the things
	First, Second []float64
}

// Write draws two bars for each thing, from the top of the picture down, over an axis of powers
// of ten that has a zero.
func (b Pairs) Write(w io.Writer, title, x string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, x
	p.X.Min, p.X.Tick.Marker = 0, plot.TickerFunc(powers)
	p.Y.Padding = vg.Points(10)
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	const thick = 5
	for i, values := range [...][]float64{b.First, b.Second} {
		lengths := make(plotter.Values, len(values))
		for k, v := range values {
			lengths[len(values)-1-k] = math.Log10(1 + v) // the other axis goes up
		}
		bars, err := plotter.NewBarChart(lengths, thick)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, colours[i], 0
		bars.Offset = thick * vg.Length(1-2*i) / 2
		p.Add(bars)
		p.Legend.Add(b.Names[i], bars)
	}
	names := slices.Clone(b.Of)
	slices.Reverse(names)
	p.NominalY(names...)
	return write(w, p, vg.Length(len(names)+6)*16)
}

// powers marks 0, 1, 10, 100 and so on, where they are on an axis of log10(1+v).
func powers(_, most float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for v := 1.0; math.Log10(1+v) <= most+1; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: math.Log10(1 + v), Label: plain(v)})
	}
	return ticks
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// written are the usual marks of an axis with plain numbers.
func written(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = plain(ticks[i].Value)
		}
	}
	return ticks
}

// write is [plot.Plot.WriterTo] without its table of formats, which links the encoders of all of them.
func write(w io.Writer, p *plot.Plot, height vg.Length) error {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
