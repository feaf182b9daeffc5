// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// two values of the same length
var taking = []string{strings.Repeat("x", 40), strings.Repeat("y", 40)}

func TestMeasureCountsBytes(t *testing.T) {
	shapes := []Shape{
		{Name: "none"},
		{Name: "answer", Answers: []Field{{"X-A", taking}}},
		{Name: "request", Sends: []Field{{"X-A", taking}}},
		{Name: "plain", Plain: true},
	}
	for _, v := range []Version{HTTP1, HTTP2} {
		costs, err := Measure(shapes, v, Plan{Sittings: 2, Rounds: 2, Slice: different})
		require.NoError(t, err)
		require.Zero(t, costs[0].Above)
		for i, c := range costs {
			require.Positive(t, c.Whole, shapes[i].Name)
		}
		line := float64(len("X-A: \r\n") + 40)
		if v == HTTP1 {
			require.Equal(t, [...]float64{line, 0, 0, line, 0}, [...]float64{costs[1].Answer, costs[1].Request, costs[2].Answer, costs[2].Request, costs[3].Answer})
			continue
		}
		// Two values that come again are a byte each from the table; what is never indexed
		// is spelled each time, in letters of seven bits.
		require.InDelta(t, 1, costs[1].Answer, 1)
		require.InDelta(t, 40, costs[2].Request, 10)
	}
}

func TestOursAreOfOneLength(t *testing.T) {
	ours, err := Ours(middleware.Limit{Quota: 500, Window: time.Minute}, middleware.Limit{Quota: 5000, Window: time.Hour})
	require.NoError(t, err)
	var s Shape
	for _, f := range ours {
		s.Answers = append(s.Answers, f)
	}
	require.Len(t, s.Answers, 5)
	require.NoError(t, s.check())
	require.Len(t, ours[TokenField].Values, different)
}

func TestWhatIsNotWhatItSays(t *testing.T) {
	for name, c := range map[string]struct {
		shape Shape
		says  string
	}{
		"lengths":  {Shape{Name: "s", Answers: []Field{{"X-A", []string{"1", "22"}}}}, "s: values of X-A have 1 and 2 bytes"},
		"spelling": {Shape{Name: "s", Sends: []Field{{"x-a", []string{"1"}}}}, `s: the field "x-a" is not in canonical spelling`},
		"turns":    {Shape{Name: "s", Sends: []Field{{"X-A", []string{"1", "2", "3"}}}}, "has 3 values"},
		// The server strips what is around a value.
		"lost":    {Shape{Name: "s", Sends: []Field{{"X-A", []string{"1 "}}}}, "s: "},
		"changed": {Shape{Name: "s", Answers: []Field{{"X-A", []string{"1 "}}}}, `s: answered X-A: ["1"], want "1 "`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Measure([]Shape{c.shape}, HTTP1, Plan{Sittings: 1, Rounds: 1, Slice: 1})
			require.ErrorContains(t, err, c.says)
		})
	}
}

// A server that answers something else in the midst of it is noticed, over both versions.
func TestSendLooksAtTheLastAnswer(t *testing.T) {
	for _, v := range []Version{HTTP1, HTTP2} {
		s := &Shape{Name: "s"}
		seat, err := sit(s, v)
		require.NoError(t, err)
		defer seat.close()
		require.NoError(t, seat.send(3))
		seat.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("no"))
		})
		require.ErrorContains(t, seat.send(1), "s: ")
	}
}

func TestSpread(t *testing.T) {
	require.Equal(t, 1.0, spread([]float64{3, 1, 2}))
	many := make([]float64, 25)
	for i := range many {
		many[i] = float64(i)
	}
	require.Equal(t, 12.0, median(many))
	require.Equal(t, 5.0, spread(many)) // ranks 8 and 18 of 25: 95.7 %
}
