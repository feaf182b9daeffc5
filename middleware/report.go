// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A reporter writes at most one line a minute for each check, so that an attack cannot fill
// the disk. Each line has the check's code, and the page that says what to do.
type reporter struct {
	log    *slog.Logger
	policy string
	alarms *alarms // of the Middleware, whatever its configuration
}

// The alarms of a Middleware outlive its configurations: else each Reconfigure would
// ring them anew, and leave an outage without its end.
type alarms struct {
	rang [numFindings]alarm

	down    atomic.Bool // the log says that the exact counter does not answer
	watch   watch       // for proxies that are taken for clients
	lookout lookout     // for what is amiss around a handler
	unknown unknown     // secrets: who shows what another one has signed

	pageTold atomic.Bool // once: it may be meant, as a gate
}

// warn logs one line, unless the check has done so within the last minute.
func (r *reporter) warn(now time.Time, c finding, message string, args ...any) {
	if r.alarms.rang[c].due(now) {
		r.tell(slog.LevelWarn, c, message, args...)
	}
}

func (r *reporter) tell(level slog.Level, c finding, message string, args ...any) {
	args = append([]any{"policy", r.policy, "code", codes[c]}, args...)
	r.log.Log(context.Background(), level, "tallystick: "+message, append(args, "page", checksPage+codes[c])...)
}

// inherited tells the operator to make the memory larger, or of a flood.
func (r *reporter) inherited(now time.Time) {
	r.warn(now, memoryFull, "memory saturated: clients that it does not know begin with the smallest counts of others, and may be refused early", "remedy", "raise Config.MaxClients")
}

// saturated is the same for what is paid for with work.
func (r *reporter) saturated(now time.Time) {
	r.warn(now, salesFull, "memory saturated: it has no room for what is paid for with work, and nothing more is sold", "remedy", "raise Config.MaxClients")
}

// counterFailed tells of a call that has failed.
func (r *reporter) counterFailed(now time.Time, err error) {
	r.warn(now, counterFailed, "exact counter failed a request", "error", err)
}

// counterDown tells of an outage once, and not more than once a minute. One that comes
// too soon after another is told of by a later probe.
func (r *reporter) counterDown(now time.Time, consequence string, err error) {
	if !r.alarms.down.Load() && r.alarms.rang[counterSilent].due(now) {
		r.alarms.down.Store(true)
		r.tell(slog.LevelError, counterSilent, "exact counter does not answer; "+consequence, "error", err)
	}
}

// counterAnswers ends an outage that was told of: each alarm has its all-clear, and no
// other. That one node of a cluster answers does not end the outage of another.
func (r *reporter) counterAnswers(now time.Time, guard *guardedcall.Guard) {
	if r.alarms.down.Load() && guard.Well(now) && r.alarms.down.Swap(false) {
		r.tell(slog.LevelInfo, counterBack, "exact counter answers again")
	}
}

// counterRefuses tells of load that does not end, a crowd is none: it passes; and of a counter that
// has no room, at once: somebody can give it more.
func (r *reporter) counterRefuses(now time.Time, outcome guardedcall.Outcome, err error, guard *guardedcall.Guard) {
	switch outcome {
	case guardedcall.Answered:
		return
	case guardedcall.Full:
		r.warn(now, counterFull, "exact counter has no room, and refuses customers", "error", err)
		return
	}
	because, err, does := guard.Refuses(now)
	if !does {
		return
	}
	args := []any{"because", callOf(because)}
	if err != nil { // else there was no place to wait
		args = append(args, "error", err)
	}
	r.warn(now, counterRefuses, "exact counter answers, and most requests of most of ten seconds were refused as load", args...)
}

// An alarm rings at most once a minute.
type alarm struct{ last atomic.Int64 }

// due takes a clock that has stepped back by a minute for one that was wrong
// before, and less for requests that overtake each other.
func (a *alarm) due(now time.Time) bool {
	last, second := a.last.Load(), now.Unix()
	return (second >= last+60 || second <= last-60) && a.last.CompareAndSwap(last, second)
}

// Behind a proxy that the identity function does not know of, all clients are one: they
// share a quota, and nothing fails. A watch notices. It asks one question of any identity
// that is an address: does the request name somebody beyond it, as proxies do?
//
//   - An address that proxies of one's own have, and clients from the Internet do not,
//     is told of at once.
//   - Any other may be a client that writes the field itself. It is told of when it has
//     named many clients within a day.
//
// What is read was written by anyone, and decides nothing: the most that a client can do
// is one line in the log a minute. One request a second is looked at, and all other
// requests pay one atomic load.
type watch struct {
	looked atomic.Int64 // the second of the last look

	mu     sync.Mutex
	places [8]place // the first of each day; there are as many proxies that tell the same
}

// A place watches one address.
type place struct {
	who   netip.Addr
	since int64                 // Unix seconds
	named [manyNamed]netip.Addr // whom it has named, without repetition
	n     int
}

const (
	manyNamed = 4
	watchFor  = 24 * 60 * 60 // seconds
)

// due reports whether a request should be looked at.
func (w *watch) due(now time.Time) bool {
	last, second := w.looked.Load(), now.Unix()
	return second != last && w.looked.CompareAndSwap(last, second)
}

// note notes that who has named another, and reports whether it has named many.
func (w *watch) note(now time.Time, who, named netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var p *place
	for i := range w.places {
		at := &w.places[i]
		if age := now.Unix() - at.since; age >= watchFor || age <= -watchFor {
			*at = place{}
		}
		if at.who == who {
			p = at
			break
		}
		if p == nil && !at.who.IsValid() {
			p = at
		}
	}
	if p == nil {
		return false
	}
	if !p.who.IsValid() {
		p.who, p.since = who, now.Unix()
	}
	for i := range p.n {
		if p.named[i] == named {
			return p.n == manyNamed
		}
	}
	if p.n < manyNamed {
		p.named[p.n] = named
		p.n++
	}
	return p.n == manyNamed
}

// near reports whether an address is one that proxies of one's own have, and clients
// from the Internet do not: private, loopback, link-local, or shared (RFC 6598).
func near(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || shared.Contains(addr)
}

// shared is the network between carriers and their customers, which platforms use for
// networks of their own.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// A lookout looks at one request a second for what is amiss around a handler: all others
// pay one atomic load. It decides nothing. What it reads was written by anyone, and none of
// it is told.
type lookout struct {
	looked atomic.Int64 // the second of the last look

	mu  sync.Mutex
	one oneClient
}

// due reports whether a request should be looked at, and by how much the clock has
// stepped back since the last one that was, if that is more than requests may overtake
// each other by.
func (l *lookout) due(now time.Time) (back time.Duration, look bool) {
	last, second := l.looked.Load(), now.Unix()
	if second == last || !l.looked.CompareAndSwap(last, second) {
		return 0, false
	}
	if last != 0 && second <= last-60 {
		back = time.Duration(last-second) * time.Second
	}
	return back, true
}

// manyPrograms is how many different User-Agents one client has not.
const manyPrograms = 8

// A oneClient is the only client that is ever seen, and how its requests differ. It is for
// proxies that do not name their clients at all.
type oneClient struct {
	who      netip.Addr
	since    int64 // Unix seconds
	programs []string
}

// note notes which program an address has sent a request by, "" for one that says nothing of
// proxies, and reports whether everybody turns out to be this address.
func (l *lookout) note(now time.Time, who netip.Addr, program string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.one
	if age := now.Unix() - o.since; who != o.who || age >= watchFor || age <= -watchFor {
		*o = oneClient{who: who, since: now.Unix()}
	}
	switch {
	case program == "":
		return false
	case slices.Contains(o.programs, program):
	case len(o.programs) < manyPrograms:
		o.programs = append(o.programs, strings.Clone(program))
	}
	return len(o.programs) == manyPrograms
}

// An unknown knows which clients have shown what no secret of ours has signed.
type unknown struct {
	looked atomic.Int64 // the second of the last look

	mu    sync.Mutex
	since int64 // Unix seconds
	who   []client
}

// A client is a network of which nobody has many, or a customer.
type client struct {
	network netip.Prefix
	name    string
}

const (
	manyUnknown    = 4       // clients
	unknownWithin  = 60 * 60 // seconds: forms may have few visitors
	longestUnknown = 64      // bytes of a name
)

// note notes a client, and reports whether there are many.
func (u *unknown) note(now time.Time, id *Identity) bool {
	last, second := u.looked.Load(), now.Unix()
	if second == last || !u.looked.CompareAndSwap(last, second) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if age := second - u.since; age >= unknownWithin || age <= -unknownWithin {
		u.since, u.who = second, u.who[:0]
	}
	if one := clientOf(id); len(u.who) < manyUnknown && !slices.Contains(u.who, one) {
		u.who = append(u.who, one)
	}
	return len(u.who) == manyUnknown
}

// clientOf returns what is counted as one client of id. Of the Internet that is what one customer of a
// host may have at once, see surgeNetwork; of networks of one's own, where nobody has many, an address.
func clientOf(id *Identity) client {
	if id.kind != kindAddress {
		return client{name: strings.Clone(id.text[:min(int(id.named), longestUnknown)])} // one customer, whatever it asks for
	}
	addr := id.home()
	bits := 29
	switch {
	case near(addr):
		bits = addr.BitLen()
	case addr.Is4():
		bits = 16
	}
	network, _ := addr.Prefix(bits)
	return client{network: network}
}
