// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// What the client of a trip sends but for what it shows.
const (
	requestLine = "POST /contact HTTP/1.1\r\nHost: peers.test\r\nContent-Length: 0\r\n"
	endOfFields = "\r\n"
)

// Plainly is the Request of a [Trip] whose client shows nothing.
func Plainly(b, _ []byte) []byte { return append(b, requestLine+endOfFields...) }

// Echoing returns the Request of a [Trip] whose client shows the newest token of its
// answers, as InHeader or InCookie say.
func Echoing(s Shows) func(b, head []byte) []byte {
	from, name := []byte("\r\n"+tokenHeader+": "), tokenHeader+": "
	if s == InCookie {
		from, name = []byte("\r\n"+setCookie+": "), cookieHeader+": "
	}
	return func(b, head []byte) []byte {
		b = append(b, requestLine...)
		if token, _, _ := bytes.Cut(FieldOf(head, from), []byte(";")); len(token) > 0 {
			b = append(append(append(b, name...), token...), "\r\n"...)
		}
		return append(b, endOfFields...)
	}
}

// The rows of what a request costs in a real server that others are compared with, and the
// first part of the names of its benchmarks.
const (
	RoundTrip = "RoundTrip"

	None   = "none"   // the handler alone
	Fields = "fields" // our fields, in both directions, and nothing computed
)

// Trips returns what is measured in a real server: ours, the peers, and what there is
// between no limiter and ours.
func Trips() ([]Trip, error) { return trips(new(opening)) }

func trips(o *opening) ([]Trip, error) {
	fields, err := fieldsAlone(o)
	if err != nil {
		return nil, err
	}
	ours := func(n int) (handlers []http.Handler, err error) {
		for range n {
			h, errNew := ourselves(o, Plenty(1))
			handlers, err = append(handlers, h), errors.Join(err, errNew)
		}
		return handlers, err
	}
	all := []Trip{
		{Name: None, Handlers: []http.Handler{Served()}, Request: Plainly},
		{Name: Fields, Handlers: []http.Handler{fields}, Request: Echoing(InHeader)},
	}
	add := func(name string, request func(b, head []byte) []byte, handlers []http.Handler, errNew error) {
		all = append(all, Trip{Name: name, Handlers: handlers, Request: request})
		err = errors.Join(err, errNew)
	}
	for _, name := range []string{reference, "throttled"} {
		h, errNew := theirs(limiterOf(name))(nil, Plenty(1))
		add(name, Plainly, []http.Handler{h}, errNew)
	}
	for _, t := range []struct {
		name      string
		shows     Shows
		instances int
	}{{"-post", InHeader, 1}, {"-hop", InHeader, 2}, {"-cookie-post", InCookie, 1}} {
		handlers, errNew := ours(t.instances)
		add(Ours+t.name, Echoing(t.shows), handlers, errNew)
	}
	for i := range all {
		all[i].Status = http.StatusOK
	}
	return all, err
}

// fieldsAlone returns a handler that sends the fields of an answer of ours as they stood in
// one, to a token by header.
func fieldsAlone(o *opening) (http.Handler, error) {
	a, err := echo(http.MethodPost, InHeader, 1)(o)
	if err != nil {
		return nil, err
	}
	a.run(1)
	if err := a.after(1); err != nil {
		return nil, err
	}
	fields, next := a.w.header.Clone(), Served()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), fields)
		next.ServeHTTP(w, r)
	}), nil
}

// MeasureRoundTrips measures [Trips].
func MeasureRoundTrips(ctx context.Context, r Run) error {
	trips, err := Trips()
	if err != nil {
		return err
	}
	return MeasureTrips(ctx, RoundTrip, trips, r)
}

// MeasureTrips measures trips beside each other, on one processor that server and client
// share.
func MeasureTrips(ctx context.Context, kind string, trips []Trip, r Run) (err error) {
	p := r.plan(kind, 200, 1)
	p.Pace = pace
	for _, t := range trips {
		if !r.wants(t.Name) {
			continue
		}
		player, closed, errOpen := t.Player()
		if errOpen != nil {
			return errOpen
		}
		defer func() { err = errors.Join(err, closed()) }()
		p.Players = append(p.Players, player)
	}
	return turns.Measure(ctx, p, r.Out, r.Progress)
}
