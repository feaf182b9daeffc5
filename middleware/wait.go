package middleware

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// The wait lane is for people whose browser cannot work: who is refused a page
// gets a ticket with it, waits, and sends the request again. The lane is one more
// family that everybody of the identity shares, with a part of each quota. A
// ticket founds no family and changes no price; it can be shown again, by any
// number of clients at once, to any number of instances, and so can any number of
// tickets: what they get together is the lane's quota, on each instance.
//
// Ticket and tally travel in a cookie of their own, because a request for a page
// has no other place for them (its body is never read, and a URL is logged), and
// because the tally cookie has room for one family, of which the client may have
// another.

// A lane is the compiled wait lane of a policy.
type lane struct {
	keys   ticketKeys
	cookie string // its name
}

// defaultShare is the part of each quota that the lane has, one in so many.
const defaultShare = 5

// waitShare checks the fields of c that concern the wait lane, and returns the
// share, 0 for no lane.
func waitShare(cfg *Config, c *Challenge, problem func(field, format string, args ...any)) int64 {
	if c.WaitShare < 0 || c.WaitShare > storeless.MaxQuota {
		problem("WaitShare", "must be one in 1 to %d, or 0 for one in %d", storeless.MaxQuota, defaultShare)
	}
	possible := cfg.Carriage != CarryHeader && !cfg.InsecureNoMemory
	switch {
	case c.WaitShare == 0:
		if c.NoWait || !possible || c.Mode == EveryRequest {
			return 0
		}
		return defaultShare
	case c.NoWait:
		problem("NoWait", "leaves WaitShare nothing to divide; leave out one of them")
	case cfg.Carriage == CarryHeader:
		problem("WaitShare", "cannot go with CarryHeader: a wait ticket is a cookie")
	case cfg.InsecureNoMemory:
		problem("WaitShare", "cannot go with InsecureNoMemory: a wait ticket can be shown again and again, and nothing would count it")
	}
	return c.WaitShare
}

// openLane compiles the lane of a policy, and that of each tier, where it is on.
func (e *engine) openLane(cfg *Config) error {
	if e.challenge == nil || e.challenge.share == 0 {
		return nil
	}
	keys, err := newTicketKeys(cfg.Policy, cfg.Secrets)
	if err != nil {
		return err
	}
	tiers := []*tier{&e.base}
	for _, t := range e.tiers {
		tiers = append(tiers, t)
	}
	for _, t := range tiers {
		slow := newTier(cfg, t.name, limits{tokens: t.policy.Share(e.challenge.share)})
		t.lane = &slow
	}
	// No policy's name has a dot: this is no cookie of another policy's.
	e.lane = &lane{keys: keys, cookie: e.cookieName + ".wait"}
	return nil
}

// waiting is what a request shows of the wait lane.
type waiting struct {
	who    []byte // the bytes of the lane's family
	holder token.Holder
	tally  storeless.Tally
	ticket string    // the one that opens first, of those that are still good; "": none
	opens  time.Time // when
}

// open reports whether the ticket lets in now.
func (q *inquiry) open() bool { return q.wait.ticket != "" && !q.now.Before(q.wait.opens) }

// passByWait charges the lane for a request that would be refused, if it shows a
// ticket whose wait has passed. The lane can only admit: a refusal is what it
// would be without one. asked says whether the limits have been asked; so does
// the result.
func (e *engine) passByWait(q *inquiry, r *http.Request, cost int64, c *charged, asked bool) bool {
	if e.lane == nil || asked && c.verdict.Admitted {
		return asked
	}
	q.wait = new(waiting)
	e.readWait(q, r)
	if !q.open() {
		return asked
	}
	f := e.laneFamily(q)
	slow := charged{lane: true, shown: f.Shown}
	slow.tally, slow.verdict = storeless.Take(e.memory, q.tier.lane.policy, q.now, &f, cost)
	if !slow.verdict.Admitted {
		return asked
	}
	*c, q.tier = slow, q.tier.lane
	return true
}

// readWait verifies the tickets and the tallies beside them. Like tokens, all
// that are ours count.
func (e *engine) readWait(q *inquiry, r *http.Request) {
	looked := 0
	for value := range cookies(r.Header["Cookie"], e.lane.cookie) {
		if looked++; looked > maxTokens {
			return
		}
		e.lookAtWait(q, value)
	}
}

// lookAtWait verifies the value of one cookie: a ticket and, after "~", a token
// of the lane's family.
func (e *engine) lookAtWait(q *inquiry, value string) {
	w := q.wait
	ticket, tok, _ := strings.Cut(value, "~")
	opens, ok := e.lane.keys.verify(ticket, q.who)
	if !ok {
		return
	}
	if tok != "" {
		e.joinLane(q)
		if t, err := w.holder.Verify(tok, q.now); err == nil && t.Own.IsZero() {
			w.tally = q.tier.lane.policy.Merge(q.now, w.tally, t.Tally)
		}
	}
	if q.now.Before(opens.Add(ticketLife)) && (w.ticket == "" || opens.Before(w.opens)) {
		w.ticket, w.opens = ticket, opens
	}
}

// joinLane names the family of the lane, once and only where it is needed: most
// who are refused are programs.
func (e *engine) joinLane(q *inquiry) {
	if w := q.wait; w.who == nil {
		w.who = append([]byte{kindLane}, q.who...)
		w.holder = e.codec.Holder(w.who)
	}
}

// laneFamily returns the family of the lane. Its networks are counted apart from
// those of the rest: else whoever fills one lane would fill the other.
func (e *engine) laneFamily(q *inquiry) storeless.Family {
	e.joinLane(q)
	f := storeless.Family{Key: e.memory.Key(q.wait.who), Shown: q.wait.tally, MustKeep: true}
	if q.nets[0].Policy != nil {
		slow := q.tier.lane
		f.Wide = []storeless.Wide{
			{Key: e.memory.Key(q.id.appendNet([]byte{kindLane}, 56)), Policy: slow.net56},
			{Key: e.memory.Key(q.id.appendNet([]byte{kindLane}, 48)), Policy: slow.net48},
		}
	}
	return f
}

// offerWait gives a ticket along with the refusal of a page: to people, since
// programs can work. It opens when the lane has room, so that it is worth its
// wait, and no earlier than any client has to wait.
func (e *engine) offerWait(q *inquiry, x *exchange, r *http.Request) {
	d := &x.decision
	if e.lane == nil || e.shadow || d.Admitted || !prefersHTML(r.Header["Accept"]) {
		return
	}
	f := e.laneFamily(q)
	v := storeless.Peek(e.memory, q.tier.lane.policy, q.now, &f, d.Cost)
	if v.Impossible {
		return // it would be a wait for nothing
	}
	if v.Saturated { // until windows have ended; pages load themselves anew meanwhile
		v.Wait = max(v.Wait, fullWait)
	}
	w := q.wait
	wait := firstWait
	if v.Wait > wait {
		wait = jittered(v.Wait)
	}
	// A client that comes too early keeps its ticket: a new one would begin its wait anew.
	good := w.ticket != "" && q.now.Add(v.Wait).Before(w.opens.Add(ticketLife))
	switch left := max(w.opens.Sub(q.now), v.Wait); {
	case !good || left > wait:
		w.opens = q.now.Add(wait)
		w.ticket = e.lane.keys.issue(w.opens, q.who)
	case left > 0:
		wait = left
	}
	d.Wait = (wait + time.Second - 1).Truncate(time.Second)
	x.refusal = &refusal{e, e.waitCookie(q, &w.tally)}
}

// A refusal is what an [Interstitial] needs beside the decision, and the cookie
// of the ticket that goes out, if one does.
type refusal struct {
	engine *engine
	ticket string
}

// fillByWait fills in the fields of a request that the lane has admitted.
func (e *engine) fillByWait(x *exchange, q *inquiry, c *charged) {
	e.fill(x, q, &c.verdict, nil, nil)
	if e.quiet != QuietNoToken {
		x.fields.cookie = e.waitCookie(q, &c.tally)
		x.fields.values[iCache] = noStore
	}
}

// waitCookie returns the cookie with the ticket and the tally of the lane. It
// stays for as long as one of them is worth something.
func (e *engine) waitCookie(q *inquiry, tally *storeless.Tally) string {
	w := q.wait
	b := append(make([]byte, 0, 640), e.lane.cookie...)
	b = append(b, '=')
	b = append(b, w.ticket...)
	ends := w.opens.Add(ticketLife).Unix()
	if e.quiet != QuietNoToken {
		n := len(b)
		b = append(b, '~')
		if b = w.holder.Append(b, tally); len(b) == n+1 {
			b = b[:n] // nothing has been counted
		} else {
			ends = max(ends, q.tier.policy.Expires(*tally))
		}
	}
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, ends-q.now.Unix()), 10)
	return string(append(b, e.cookieAttributes...))
}

// wait returns how long a person has to wait who does no work; 0 if waiting does
// not help.
func (d *Decision) wait() time.Duration {
	if d.Wait > 0 && (d.RetryAfter == 0 || d.Wait < d.RetryAfter) {
		return d.Wait
	}
	return d.RetryAfter
}

// longestRefresh is how long a page waits by itself. After that nobody is there.
const longestRefresh = time.Minute

// appendRefresh has the page loaded anew when its wait is over, by a browser
// that runs no script. Nothing on it could be lost.
func appendRefresh(b []byte, d *Decision) []byte {
	if d.Wait == 0 || d.wait() > longestRefresh {
		return b
	}
	b = append(b, `<noscript><meta http-equiv="refresh" content="`...)
	b = strconv.AppendInt(b, int64(d.wait()/time.Second), 10)
	return append(b, "\"></noscript>\n"...)
}
