// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"net/http"
	"strings"
	"time"
)

//go:embed quickstart/main.go
var firstProgram string

// firstLines are the lines of the first program that limit a form, as the README has them.
var firstLines = func() string {
	_, text, _ := strings.Cut(firstProgram, "\tlimit, err := ")
	text, last, _ := strings.Cut("\tlimit, err := "+text, "\thttp.Handle(")
	last, _, _ = strings.Cut("\thttp.Handle("+last, "\n")
	var lines strings.Builder
	for line := range strings.Lines(text + last) {
		lines.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return lines.String()
}()

// prefilled is what the form says, so that there is nothing to type.
var prefilled = contact{Name: "Ada", Email: "ada@example.org", Message: "Who keeps the count?"}

// stageOf returns the picture of a round as it stands. shown is the token that the browser has
// brought, if that is known.
func (s *showroom) stageOf(r round, shown string) stage {
	var v *visit
	if r.id != "" {
		v, _ = s.visits.seen(r)
	}
	if v == nil {
		v = &visit{now: r}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now
	if r.turn > now.turn {
		now = r // of before this process, or of before it was forgotten
	}
	limit := s.limit.Load()
	st := stage{Steps: v.steps, Quota: limit.Quota, Window: limit.Window, Thrown: now.thrown}
	at := v.laneOf(now)
	active := v.lanes[at]
	for n := 1; n <= s.instances; n++ {
		i := instanceView{Number: n}
		if c := active.instances[n]; c != nil {
			i.Admitted, i.Refused = c.Admitted, c.Refused
		}
		if v.last != nil && v.last.Instance == n {
			i.Lit, i.LitAdmitted = true, v.last.Admitted
		}
		st.Instances = append(st.Instances, i)
	}
	for i := range v.lanes {
		st.Lanes = append(st.Lanes, s.laneOf(i, v.lanes[i], i == at, v.last != nil && active.tried))
	}
	token := v.token
	if v.steps == 0 && !now.thrown { // a visit of before this process, perhaps
		token = viewToken(shown, tokenView{})
	}
	if token.Header != "" {
		st.Token = &token
	}
	switch {
	case v.last != nil:
		st.Said = v.last.sentence(active.retry)
	case now.thrown:
		st.Said = "The token is gone. From now on none is kept: send some."
	case now.turn > 0:
		st.Said = "A new count begins: send some."
	}
	return st
}

// laneOf returns a row, with the bound that docs/bounds.md has for such a client.
func (s *showroom) laneOf(kind int, l lane, active, lit bool) laneView {
	quota := l.quota
	if quota == 0 {
		quota = s.limit.Load().Quota
	}
	n, f := int64(s.instances), max(1, int64(len(l.tallies)))
	view := laneView{
		Active: active, Tried: l.tried, Admitted: l.admitted, Refused: l.refused,
		Marks: l.marks, Skipped: l.admitted + l.refused - len(l.marks), NewestLit: lit && active,
	}
	switch {
	case kind == thrown:
		view.Title, view.Bound = "The token is thrown away", n*quota
		view.Formula = number(n) + " · L"
		view.Why = "Each instance knows what it has seen itself, and remembers that."
	case kind == kept:
		view.Title, view.Bound = "The token is shown", quota
		view.Formula = "L"
		view.Why = "Each instance reads the whole count in the token."
	default:
		view.Title, view.Bound = "A tally is bought", n*quota*(1+f)
		view.Formula = number(n) + " · L · (1 + " + number(f) + " bought)"
		view.Why = "A tally that was bought has a token and a count of its own. A browser shows the newest token; the one before counts as thrown away."
	}
	return view
}

// sentence is the answer as it is read out.
func (m mark) sentence(retry time.Duration) string {
	at := " by instance " + number(int64(m.Instance)) + "."
	switch {
	case m.Admitted:
		return "Admitted" + at + " " + number(m.Left) + " left."
	case retry > 0:
		return "Refused" + at + " The next passes in " + roughly(retry) + ", or after some work."
	default:
		return "Refused" + at
	}
}

// roughly is a wait in its larger unit.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return number(int64(d/time.Second)) + " seconds"
	default:
		return number(int64((d+time.Minute-1)/time.Minute)) + " minutes"
	}
}

// show is the home page.
func (s *showroom) show(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusOK, page{Title: "Tallystick demo", Contact: prefilled})
}

// write answers with the home page.
func (s *showroom) write(w http.ResponseWriter, r *http.Request, status int, p page) {
	now := roundOf(r)
	if now.id == "" && status == http.StatusOK {
		now = newRound()
		http.SetCookie(w, now.cookie())
	}
	st := s.stageOf(now, shownToken(r))
	p.Stage, p.Lines, p.Times = &st, firstLines, times
	w.Header().Set("Cache-Control", "no-store")
	writePage(w, status, "showroom", p)
}

// stage is the part of the home page that changes.
func (s *showroom) stage(w http.ResponseWriter, r *http.Request) {
	text, err := s.draw(roundOf(r), shownToken(r))
	if err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the client is gone, or not
}

func (s *showroom) draw(r round, shown string) ([]byte, error) {
	var b bytes.Buffer
	err := templates["showroom"].ExecuteTemplate(&b, "stage", s.stageOf(r, shown))
	return b.Bytes(), err
}
