// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The home page has an attack, which the server draws, and a form to try. All instances share one home.
type home struct {
	instances int
	price     string       // a path: what a tally costs
	first     picture      // of the plan that the page shows first: it is the same each time
	open      atomic.Int64 // attacks that are under way
	closed    <-chan struct{}
	close     func() // ends them
}

const mostAttacks = 8 // at once; each takes some hundredths of a core

func newHome(instances int) (*home, error) {
	price, err := priceCurve(plotWidth, 200)
	if err != nil {
		return nil, err
	}
	a, err := newArena(defaultPlan)
	if err != nil {
		return nil, err
	}
	defer a.close()
	closed, end := context.WithCancel(context.Background())
	return &home{instances: instances, price: price, first: a.played(2 * windowFrames), closed: closed.Done(), close: end}, nil
}

//go:embed quickstart/main.go
var firstProgram string

// firstLines are the lines of the first program that limit a form, as the README has them.
var firstLines = func() string {
	_, text, _ := strings.Cut(firstProgram, "func main() {")
	text, _, _ = strings.Cut(text, "\tlog.Fatal(http.")
	return strings.TrimSpace(strings.ReplaceAll(text, "\n\t", "\n"))
}()

// The page shows defaultPlan first.
var defaultPlan = plan{Instances: 3, Quota: 5}

// planOf reads a plan from the query of a request.
func planOf(r *http.Request) (p plan, err error) {
	q := r.URL.Query()
	p.Instances, _ = strconv.Atoi(q.Get("instances")) // what is no number is out of bounds
	p.Quota, _ = strconv.ParseInt(q.Get("limit"), 10, 64)
	p.Work, p.Peers = q.Get("work") != "", q.Get("peers") != ""
	return p, p.check()
}

// show is the home page, with the first seconds of an attack.
func (h *home) show(w http.ResponseWriter, _ *http.Request) { h.write(w, h.first) }

func (h *home) write(w http.ResponseWriter, attack picture) {
	const tall = 34 // what a box takes
	shown := min(h.instances, mostAttacked)
	view := &homeView{Attack: attack, Lines: firstLines, Height: max(3, shown) * tall, Price: h.price}
	view.Middle = view.Height / 2
	for n := range shown {
		top := view.Middle - shown*tall/2 + n*tall + 3
		view.Boxes = append(view.Boxes, box{n + 1, top, top + tall/2 - 3})
	}
	w.Header().Set("Cache-Control", "no-store")
	writePage(w, http.StatusOK, "home", page{Title: "Tallystick demo", Home: view})
}

// attack plays a plan. A script gets a stream of pictures (server-sent events, HTML Living Standard 9.2), a browser
// without one the page as it is after a minute.
func (h *home) attack(w http.ResponseWriter, r *http.Request) {
	p, err := planOf(r)
	if err != nil {
		writeProblem(w, r, &problem{Status: http.StatusBadRequest, Detail: err.Error()})
		return
	}
	if h.open.Add(1) > mostAttacks {
		h.open.Add(-1)
		w.Header().Set("Retry-After", "60")
		writeProblem(w, r, &problem{Status: http.StatusServiceUnavailable, Detail: "Other visitors attack just now. Try again in a minute."})
		return
	}
	defer h.open.Add(-1)
	a, err := newArena(p)
	if err != nil {
		http.Error(w, "the attack cannot be shown", http.StatusInternalServerError)
		return
	}
	defer a.close()
	if r.Header.Get("Accept") != "text/event-stream" {
		h.write(w, a.played(attackFrames))
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no") // nginx would keep it back
	out, tick := http.NewResponseController(w), time.NewTicker(frame)
	defer tick.Stop()
	for range attackFrames {
		a.advance()
		var drawn bytes.Buffer
		if err := templates["home"].ExecuteTemplate(&drawn, "arena", a.picture()); err != nil {
			return
		}
		// The server's WriteTimeout is for answers that end.
		_ = out.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := w.Write(event("message", drawn.Bytes())); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-h.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
	_, _ = w.Write(event("end", nil))
}

// event is a message of a stream.
func event(name string, data []byte) []byte {
	return slices.Concat([]byte("event: "+name+"\ndata: "), bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: ")), []byte("\n\n"))
}
