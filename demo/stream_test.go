// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The stream of events: whose it is, how it ends, and that nothing stays behind.

func fixedNow() time.Time { return time.Unix(1_800_000_000, 0) }

// A stream is one that a client reads.
type stream struct {
	*http.Response
	lines *bufio.Scanner
	stop  func()
}

func (c *client) stream() stream {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	c.t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", c.url+"/showroom/events", nil)
	require.NoError(c.t, err)
	response, err := c.http.Do(r)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = response.Body.Close() })
	return stream{response, bufio.NewScanner(response.Body), stop}
}

// next returns the data of the next event; false at the end.
func (s stream) next() (string, bool) {
	var data strings.Builder
	for s.lines.Scan() {
		line, is := strings.CutPrefix(s.lines.Text(), "data: ")
		if is {
			data.WriteString(line + "\n")
		} else if s.lines.Text() == "" && data.Len() > 0 {
			return data.String(), true
		}
	}
	return "", false
}

func TestStreamBringsThePictureOfEachStep(t *testing.T) {
	s := start(t, 3)
	c := s.visitor(t)
	events := c.stream()
	require.Equal(t, http.StatusOK, events.StatusCode)
	require.Equal(t, "text/event-stream", events.Header.Get("Content-Type"))
	require.Equal(t, "no-store", events.Header.Get("Cache-Control"))
	for want := range 7 {
		if want > 0 {
			c.message()
		}
		data, ok := events.next()
		require.True(t, ok)
		row := answer{body: data}.counts(t)[0]
		require.True(t, strings.HasPrefix(row, string(rune('0'+min(want, 5)))+" admitted"), row)
		require.Equal(t, strings.TrimSpace(data), strings.TrimSpace(c.stage().body), "the picture that the page has")
	}
	s.visitor(t).message()
	c.message()
	data, _ := events.next()
	require.Contains(t, data, "2 refused", "nothing of what another visitor does")
}

func TestStreamsEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	s := start(t, 3)
	c := s.visitor(t)
	left, stays := c.stream(), c.stream()
	_, ok := left.next()
	require.True(t, ok)
	_, ok = stays.next()
	require.True(t, ok)
	left.stop() // the visitor is gone
	s.stop()    // and later the server: it does not wait for whoever looks
	for ok {
		_, ok = stays.next()
	}
	<-s.done
	require.NoError(t, s.err)
	c.http.CloseIdleConnections()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// roomOf serves the events of a showroom alone, and returns what asks for them by a cookie.
func roomOf(t *testing.T, change func(*showroom)) (*showroom, func(*http.Cookie) *http.Response) {
	t.Helper()
	room := newShowroom(3, fixedNow)
	change(room)
	s := httptest.NewServer(http.HandlerFunc(room.events))
	t.Cleanup(s.Close)
	t.Cleanup(room.close)
	return room, func(cookie *http.Cookie) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		require.NoError(t, err)
		r.AddCookie(cookie)
		a, err := s.Client().Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = a.Body.Close() })
		return a
	}
}

func TestStreamsAreBounded(t *testing.T) {
	room, ask := roomOf(t, func(room *showroom) { room.streams.most = 2 })
	var open []*http.Response
	for range 2 {
		a := ask(newRound().cookie())
		require.Equal(t, http.StatusOK, a.StatusCode)
		open = append(open, a)
	}
	a := ask(newRound().cookie())
	require.Equal(t, http.StatusServiceUnavailable, a.StatusCode)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	for _, o := range open {
		require.NoError(t, o.Body.Close())
	}
	eventually(t, "their places are free", func() bool { return room.streams.open.Load() == 0 })
	require.Equal(t, http.StatusNoContent, ask(&http.Cookie{}).StatusCode, "nobody's stream")
	require.Zero(t, room.streams.open.Load())
}

func TestStreamOfAForgottenVisitEnds(t *testing.T) {
	room, ask := roomOf(t, func(room *showroom) { room.visits = newVisits(1) })
	a := ask(newRound().cookie())
	events := stream{a, bufio.NewScanner(a.Body), nil}
	_, ok := events.next()
	require.True(t, ok)
	room.visits.of(newRound()) // takes its place
	_, ok = events.next()
	require.False(t, ok)
}

// TestStreamBeats has a stream say something while nothing happens, so that it learns that its
// client has gone, and end after a while all the same.
func TestStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newShowroom(3, fixedNow)
		r := httptest.NewRequest("GET", "/showroom/events", nil)
		r.AddCookie(newRound().cookie())
		w := httptest.NewRecorder()
		began := time.Now()
		room.events(w, r)
		require.Equal(t, streamLife, time.Since(began))
		require.Equal(t, 1, strings.Count(w.Body.String(), "id: "))
		beats := strings.Count(w.Body.String(), ":\n\n")
		require.InDelta(t, float64(streamLife/beat), float64(beats), 1)
	})
}
