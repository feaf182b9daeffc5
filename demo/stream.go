// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

const (
	beat       = 10 * time.Second // in which a stream says something, so that one whose client has gone ends
	streamLife = 10 * time.Minute // after which a browser comes back, or does not
)

// events sends the picture of the visitor's own round, and again whenever it has changed
// (server-sent events, HTML Living Standard 9.2). A stream has no buffer: it sends the
// picture of now, so one that is slow misses pictures, and no count.
func (s *showroom) events(w http.ResponseWriter, r *http.Request) {
	now := roundOf(r)
	if now.id == "" {
		w.WriteHeader(http.StatusNoContent) // which ends an EventSource
		return
	}
	if s.streams.open.Add(1) > s.streams.most {
		s.streams.open.Add(-1)
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many streams", http.StatusServiceUnavailable)
		return
	}
	defer s.streams.open.Add(-1)
	v := s.visits.of(now)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep it back
	out := http.NewResponseController(w)
	life := time.NewTimer(streamLife)
	defer life.Stop()
	heart := time.NewTicker(beat)
	defer heart.Stop()
	sent := -1
	for {
		steps, changed := v.news()
		message := []byte(":\n\n")
		if steps != sent {
			picture, err := s.draw(now, shownToken(r))
			if err != nil {
				return
			}
			message, sent = event(steps, picture), steps
		}
		// The server's WriteTimeout is for answers that end.
		_ = out.SetWriteDeadline(time.Now().Add(2 * beat))
		if _, err := w.Write(message); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-changed:
			if still, ok := s.visits.seen(now); !ok || still != v {
				return // forgotten: the browser comes back
			}
		case <-heart.C:
		case <-life.C:
			return
		case <-s.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// event is a message of a stream.
func event(id int, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("id: " + strconv.Itoa(id) + "\n")
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
