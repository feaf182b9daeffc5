// SPDX-License-Identifier: Apache-2.0

// Package clienttest tells whether a client does its part: echoes the newest token, solves
// challenges, waits as it is told to, and gives up in time.
//
// # What it does not tell
//
// A client that passes is polite, and loses nothing that it could have. It may still be slow,
// leak, or fail under load: each case is a few requests, one after another. Pages and wait
// tickets are for browsers, and have no case.
//
// To wait and to work is a client's choice. One that gives a refusal back to its caller
// instead has Returned, which is no fault.
//
// # Use
//
// A [Server] plays the cases. Each is a real [middleware.Middleware], to which things
// happen: its price rises, its secrets change, an answer is lost. A program that has the
// client, in any language, asks for the cases at /cases and sends their requests in turn.
// The report is at /report. The program middlewaretest/cmd/clienttest does that around a command:
//
//	go run github.com/tallystick/tallystick/middleware/middlewaretest/cmd/clienttest python3 mine.py
//
// docs/clients.md has the cases, the faults, and a whole example.
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

// result says how the client does so far.
func (s *stage) result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Result{Case: s.name, Verdict: s.judge.verdict(s.calls, s.hopeless), Faults: s.judge.faults, Sends: []Send{}}
	for _, v := range s.judge.visits {
		r.Sends = append(r.Sends, v.send(s.policies))
	}
	return r
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

// A Result is one case with its verdict.
type Result struct {
	Case    string  `json:"case"`
	Verdict string  `json:"verdict"`
	Faults  []Fault `json:"faults,omitempty"`
	Sends   []Send  `json:"sends"`
}

// A Report holds the results of all cases.
type Report struct {
	Passed   int      `json:"passed"`
	Returned int      `json:"returned"`
	Failed   int      `json:"failed"`
	Missing  int      `json:"missing"`
	Cases    []Result `json:"cases"`
}

// OK reports whether all cases were tried, and none failed.
func (r Report) OK() bool { return r.Failed == 0 && r.Missing == 0 }

// String returns the report as text: a line for each case, and one for each fault.
func (r Report) String() string {
	var b strings.Builder
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "%-9s %s\n", c.Verdict, c.Case)
		for _, f := range c.Faults {
			fmt.Fprintf(&b, "          request %d, send %d: %s", f.Call, f.Send, f.Code)
			if f.Detail != "" {
				b.WriteString(": " + f.Detail)
			}
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "%d passed, %d returned, %d failed, %d missing\n", r.Passed, r.Returned, r.Failed, r.Missing)
	return b.String()
}
