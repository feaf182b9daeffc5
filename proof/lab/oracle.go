// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/players"
)

// An oracle knows what every tally has truly used, because it sees every answer that any
// client gets, of attackers too. So it can say of a refusal whether it was just.
//
// It errs in favour of the server: a request under way may have been charged already.
type oracle struct {
	quota  int64
	share  int64 // what an own tally has on each instance but its home; 0: the quota
	shared bool  // clients may be charged on the tally of their address
	proofs bool  // each request needs a proof, and is refused without one whatever has room

	mu       sync.Mutex
	tallies  map[string]*used  // by the address, or what the token of an own one says
	issuers  map[string]string // of challenges, by their text: processes
	asked    int64             // answers that want work first
	refused  int64
	early    []early // refusals of those that had room
	far      int64   // refusals of those that had room, but on other instances
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
	inherited bool             // it has begun with a count of others, somewhere
	home      string           // of an own one: the process that has issued its challenge
	at        map[string]int64 // what was admitted of it, by the process
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
		resp, err := w.RoundTripper.RoundTrip(r)
		if err == nil {
			w.learn(r, resp, nil)
		}
		return resp, err
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
	w.learn(r, resp, mine)
	charged := shared
	if d.Own {
		charged = strings.Join(mine, " ")
		if got := w.brought(resp); len(got) > 0 {
			charged = got[0]
		}
	}
	w.oracle.judge(usable, charged, resp.Header.Get(instance.ProcessHeader), resp.StatusCode, d, w.honest)
	return resp, nil
}

// brought returns which own tallies the tokens of an answer are of.
func (w *witness) brought(resp *http.Response) []string {
	return owned(append(resp.Header.Values(middleware.TokenHeader), cookies(resp.Cookies(), w.cookie)...))
}

func (o *oracle) of(tally string) *used {
	if o.tallies[tally] == nil {
		o.tallies[tally] = &used{at: map[string]int64{}}
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

// judge notes an answer of a process.
func (o *oracle) judge(usable []string, charged, process string, status int, d instance.Decision, honest bool) {
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
			u := o.of(charged)
			u.admitted++
			u.at[process]++
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
	e, far := early{how: d.String()}, false
	for _, t := range usable {
		switch u := o.of(t); {
		case u.admitted+u.underway >= o.quota:
		case o.spentAt(u, process):
			far = true
		default:
			e.roomy = append(e.roomy, t)
		}
	}
	switch {
	case len(e.roomy) > 0:
		o.early = append(o.early, e)
	case far:
		o.far++
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
		if id, _ := players.Claims(t); id != "" {
			list = append(list, id)
		}
	}
	return list
}

// Own tallies are whole at home alone: on the process that has issued their challenge. What that comes
// to is computed here once more, and where they are at home is seen from outside.

// learn notes which process has issued the challenge in an answer, and so what the home is of a
// tally that an answer brings for a proof. It reads no home of a token: that is for the server to know.
func (w *witness) learn(r *http.Request, resp *http.Response, shown []string) {
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, err := pow.ParseHeader(resp.Header.Get(middleware.ChallengeHeader)); err == nil {
		o.issuers[c.Text] = resp.Header.Get(instance.ProcessHeader)
	}
	challenge, _, _ := strings.Cut(r.Header.Get(middleware.ProofHeader), "~")
	issuer := o.issuers[challenge]
	for _, t := range w.brought(resp) {
		if u := o.of(t); u.home == "" && !slices.Contains(shown, t) {
			u.home = issuer
		}
	}
}

// spentAt reports whether an own tally has used up the share that it has on a process which is not
// its home. No share explains anything of a tally of which the oracle does not know the home.
func (o *oracle) spentAt(u *used, process string) bool {
	return o.share > 0 && u.home != "" && u.home != process && u.at[process]+u.underway >= o.share
}
