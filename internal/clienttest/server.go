// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Case lists the requests that a client sends, one after another. The next request follows
// whatever the answer was, even after an error of the network.
type Case struct {
	Name     string    `json:"name"`
	About    string    `json:"about"`
	Requests []Request `json:"requests"`
}

// A Request is one step of a Case.
type Request struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   string `json:"body"`
}

// A Server plays every case once, and judges its client:
//
//	GET /cases   the cases, as a JSON array of [Case]
//	GET /report  the [Report], as JSON, or as text if Accept is text/plain
//
// It is safe for concurrent use, but judges requests of one case that come one after another.
type Server struct {
	stages []*stage
	byName map[string]*stage
}

// New returns a server. now is the clock by which the client waits; nil is time.Now. By a
// clock that stands still no client ever waits for long enough.
func New(now func() time.Time) (*Server, error) {
	if now == nil {
		now = time.Now
	}
	secrets := [2][]byte{[]byte(rand.Text() + rand.Text()), []byte(rand.Text() + rand.Text())}
	s := &Server{byName: make(map[string]*stage)}
	for _, scene := range scenes(secrets) {
		st, err := newStage(scene, now)
		if err != nil {
			return nil, err
		}
		s.stages, s.byName[scene.name] = append(s.stages, st), st
	}
	return s, nil
}

// Cases returns the cases of a server at an origin, such as "http://127.0.0.1:8080".
func (s *Server) Cases(origin string) []Case {
	cases := []Case{}
	for _, st := range s.stages {
		c := Case{Name: st.name, About: st.about}
		for call := 1; call <= st.calls; call++ {
			r := Request{Method: st.method, URL: fmt.Sprintf("%s/run/%s?call=%d", origin, st.name, call), Body: fmt.Sprintf("request %d of %s", call, st.name)}
			if r.Method == "" {
				r.Method = http.MethodPost
			}
			if r.Method == http.MethodGet {
				r.Body = ""
			}
			c.Requests = append(c.Requests, r)
		}
		cases = append(cases, c)
	}
	return cases
}

// Report returns what there is to say so far.
func (s *Server) Report() Report {
	var report Report
	for _, st := range s.stages {
		result := st.result()
		switch result.Verdict {
		case passed:
			report.Passed++
		case returned:
			report.Returned++
		case failed:
			report.Failed++
		case missing:
			report.Missing++
		}
		report.Cases = append(report.Cases, result)
	}
	return report
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, run := strings.CutPrefix(r.URL.Path, "/run/")
	switch {
	case run && s.byName[name] != nil:
		s.byName[name].play(w, r)
	case r.URL.Path == "/cases":
		writeJSON(w, s.Cases(origin(r, false)))
	case r.URL.Path == "/report" && strings.HasPrefix(r.Header.Get("Accept"), "text/plain"):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, s.Report().String())
	case r.URL.Path == "/report":
		writeJSON(w, s.Report())
	default:
		http.NotFound(w, r)
	}
}

// play serves one send of a case.
func (s *stage) play(w http.ResponseWriter, r *http.Request) {
	call, err := strconv.Atoi(r.URL.Query().Get("call"))
	if err != nil || call < 1 || call > s.calls {
		http.Error(w, "call is which request of the case this is: see /cases", http.StatusBadRequest)
		return
	}
	resp, err := s.serve(r, call)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case resp == nil:
		panic(http.ErrAbortHandler) // which cuts the connection
	default:
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
