// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
)

// An oracle knows what every tally has truly used, because it sees every answer that any
// client gets, of attackers too. So it can say of a refusal whether it was just.
//
// It errs in favour of the server: a request under way may have been charged already.
type oracle struct {
	quota  int64
	shared bool // clients may be charged on the tally of their address
	proofs bool // each request needs a proof, and is refused without one whatever has room

	mu       sync.Mutex
	tallies  map[string]*used // by the address, or what the token of an own one says
	asked    int64            // answers that want work first
	refused  int64
	early    []early // refusals of those that had room
	served   int64
	promises []string // other promises that were broken
}

// An early refusal is one of a client of which some tally had room.
type early struct {
	roomy []string // tallies with room
	how   string
}

// used is what a tally has used.
type used struct {
	admitted  int64
	underway  int64
	inherited bool // it has begun with a count of others, somewhere
}

// A witness watches one client for the oracle.
type witness struct {
	http.RoundTripper
	oracle  *oracle
	address func() string // of its shared tally
	honest  bool          // refusals are judged
	cookie  string        // of the token
}

// RoundTrip implements [http.RoundTripper].
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/tally/") { // charges nothing
		return w.RoundTripper.RoundTrip(r)
	}
	shared := w.address()
	mine := owned(append(r.Header.Values(middleware.TokenHeader), cookies(r.Cookies(), w.cookie)...))
	usable := mine
	if w.oracle.shared {
		usable = append(usable, shared)
	}
	w.oracle.begin(usable)
	resp, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		w.oracle.end(usable)
		return nil, err
	}
	d, ok := instance.Parse(resp.Header)
	if !ok { // the proxy has answered, or a route that is none
		w.oracle.end(usable)
		return resp, nil
	}
	charged := shared
	if d.Own {
		charged = strings.Join(mine, " ")
		if got := w.brought(resp); len(got) > 0 {
			charged = got[0]
		}
	}
	w.oracle.judge(usable, charged, resp.StatusCode, d, w.honest)
	return resp, nil
}

// brought returns which own tallies the tokens of an answer are of.
func (w *witness) brought(resp *http.Response) []string {
	return owned(append(resp.Header.Values(middleware.TokenHeader), cookies(resp.Cookies(), w.cookie)...))
}

func (o *oracle) of(tally string) *used {
	if o.tallies[tally] == nil {
		o.tallies[tally] = new(used)
	}
	return o.tallies[tally]
}

func (o *oracle) begin(usable []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range usable {
		o.of(t).underway++
	}
}

func (o *oracle) end(usable []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done(usable)
}

func (o *oracle) done(usable []string) {
	for _, t := range usable {
		o.of(t).underway--
	}
}

// judge notes an answer.
func (o *oracle) judge(usable []string, charged string, status int, d instance.Decision, honest bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done(usable)
	if d.Inherited > 0 {
		for _, t := range usable {
			o.of(t).inherited = true
		}
	}
	if status < http.StatusBadRequest {
		if !d.Room {
			o.of(charged).admitted++
		}
		if honest {
			o.served++
		}
		return
	}
	if !honest {
		return
	}
	if len(usable) == 0 || o.proofs && d.Reason != string(middleware.OverLimit) {
		o.asked++
		return
	}
	o.refused++
	e := early{how: d.String()}
	for _, t := range usable {
		if u := o.of(t); u.admitted+u.underway < o.quota {
			e.roomy = append(e.roomy, t)
		}
	}
	if len(e.roomy) > 0 {
		o.early = append(o.early, e)
	}
}

// verdict says, when all is over, how many of the refusals of clients that had room a full memory
// explains, and how the others were. What a tally has begun with goes along with it, in the
// memory and in its token: so the answer that told of it explains also those that came before.
func (o *oracle) verdict() (explained int64, unjust []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	unjust = o.promises
	for _, e := range o.early {
		if slices.ContainsFunc(e.roomy, func(t string) bool { return !o.of(t).inherited }) {
			unjust = append(unjust, e.how)
		} else {
			explained++
		}
	}
	return explained, unjust
}

// cookies returns the values of a name.
func cookies(all []*http.Cookie, name string) (values []string) {
	for _, c := range all {
		if c.Name == name {
			values = append(values, c.Value)
		}
	}
	return values
}

// owned returns which own tallies tokens are of. No key is needed to read that.
func owned(tokens []string) (list []string) {
	for _, t := range tokens {
		if id, _ := fleet.Claims(t); id != "" {
			list = append(list, id)
		}
	}
	return list
}
