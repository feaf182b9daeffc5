package middleware

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// An escalation is a compiled [Exact].
type escalation struct {
	Exact
	breaker breaker
	spent   spentKeys
	traffic traffic
	refunds atomic.Int64 // a refusal that was on its way during one is not remembered

	// mark is the place of the blocked mark in tallies, see [escalation.blocked].
	mark int
}

// counterKey is a hash of whom and what a refusal is about.
type counterKey [16]byte

// A call is a request on its way to the counter.
type call struct {
	key      string     // for the counter
	refusal  counterKey // of the same, under these very quotas
	quotas   *exact.Policy
	fallback storeless.Family
}

// call names what is counted for q. Counters get a hash: engines are read by
// other people than the program is.
func (s *escalation) call(e *engine, q *inquiry) call {
	h := sha256.New()
	h.Write([]byte("tallystick/v1/exact\x00"))
	h.Write(q.who)
	quotas := q.tier.exact
	if s.Shards > 1 && q.id.kind == kindAddress {
		quotas = q.tier.shard
		h.Write([]byte{0, byte(mathrand.Int64N(s.Shards))})
	}
	sum := h.Sum(nil)
	c := call{key: base64.RawURLEncoding.EncodeToString(sum[:16]), quotas: quotas, fallback: e.shared(q)}
	// A client that moves to a larger tier is not what was refused before.
	for i := range c.refusal {
		c.refusal[i] = sum[16+i] ^ q.tier.print[i]
	}
	return c
}

// count lets the counter decide a request whose identity and tokens are known. It
// takes a copy, which outlives the decision, lest all inquiries do.
func (e *engine) count(own inquiry, x *exchange, r *http.Request) {
	s, d, q := e.exact, &x.decision, &own
	if r.Header.Get("Early-Data") == "1" {
		// TLS early data may be replayed by anybody, and each replay would be
		// charged: RFC 8470 section 5.2.
		d.Reason, d.Status = TooEarly, http.StatusTooEarly
		e.fill(x, q, nil, nil, nil)
		return
	}
	if q.tier.policy.Capacity() < d.Cost {
		e.settle(q, x, nil, &storeless.Verdict{Impossible: true}, nil)
		return
	}
	c := s.call(e, q)
	if wait, told := s.blocked(&c, q, d.Cost); wait > 0 {
		var tally *storeless.Tally
		if !told {
			tally = s.marked(q, &c, d.Cost, wait)
		}
		e.settle(q, x, nil, &storeless.Verdict{Wait: wholeSeconds(wait)}, tally)
		return
	}
	seen, ok := s.traffic.enter(s.InFlight)
	if !ok {
		e.overload(q, x)
		return
	}
	refunds := s.refunds.Load()
	v, err := s.ask(e, q, &c, d.Cost, r, seen)
	s.traffic.leave()
	switch {
	case errors.Is(err, exact.ErrFull), errors.Is(err, errCrowded):
		e.overload(q, x)
	case err != nil && d.Cost == 0: // a peek is always admitted, and there is nothing to see
		d.Degraded = true
		e.settle(q, x, nil, &storeless.Verdict{Admitted: true}, nil)
	case err != nil && s.Outage == FailClosed:
		d.Reason, d.Status, d.RetryAfter, d.Degraded = CounterDown, http.StatusServiceUnavailable, jittered(time.Second), true
		e.fill(x, q, nil, nil, nil)
	case err != nil:
		d.Degraded = true
		tally, v := storeless.Take(e.memory, q.tier.fallback, q.now, &c.fallback, d.Cost)
		soon(&v)
		if v.Admitted {
			x.charge = &charge{engine: e, q: q, tally: tally}
		}
		if v.Admitted || q.tier.fallback.Exceeds(q.now, tally, c.fallback.Shown) {
			e.settle(q, x, &v, &v, &tally)
		} else {
			e.settle(q, x, &v, &v, nil)
		}
	case v.Admitted:
		var tally storeless.Tally
		if d.Cost > 0 {
			tally = storeless.Record(e.memory, q.tier.fallback, q.now, &c.fallback, d.Cost)
			x.charge = &charge{engine: e, q: q, tally: tally, receipt: v.Receipt, refusal: c.refusal}
		} else {
			tally = c.fallback.Shown
		}
		tally[s.mark] = storeless.State{}
		e.settle(q, x, &v.Verdict, &v.Verdict, &tally)
	default:
		if s.refunds.Load() != refunds {
			e.settle(q, x, &v.Verdict, &v.Verdict, nil)
			return
		}
		s.spent.note(c.refusal, d.Cost, q.now, v.Wait)
		e.settle(q, x, &v.Verdict, &v.Verdict, s.marked(q, &c, d.Cost, v.Wait))
	}
}

// outageWait is the longest that an outage sends anybody away for: the share of an
// instance may be spent for a day, and the counter be back in a second.
const outageWait = time.Minute

// soon shortens what a verdict of the fallback says of when to come again.
func soon(v *storeless.Verdict) {
	v.Wait = min(v.Wait, outageWait)
	for i := range v.Limits {
		if s := &v.Limits[i]; s.Blocked {
			s.Reset = min(s.Reset, outageWait)
		}
	}
}

// overload refuses what the counter has no room for. It is load and no outage:
// nobody may flood the counter to get into the fallback.
func (e *engine) overload(q *inquiry, x *exchange) {
	d := &x.decision
	d.Reason, d.Status, d.RetryAfter = Overloaded, http.StatusServiceUnavailable, jittered(time.Second)
	e.fill(x, q, nil, nil, nil)
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// settle says what a verdict means, and fills in the fields: standings are nil
// where nobody was asked how the limits stand.
func (e *engine) settle(q *inquiry, x *exchange, standings, v *storeless.Verdict, tally *storeless.Tally) {
	d := &x.decision
	d.Admitted, d.Saturated = v.Admitted, v.Saturated
	if standings != nil {
		d.stand(standings)
	}
	e.judge(q, x, v)
	e.fill(x, q, standings, nil, tally)
}

// errNotAsked is the outcome of a call that an open breaker keeps back.
var errNotAsked = errors.New("the counter is not asked while it fails")

// ask calls the counter, within the deadline, unless the breaker is open.
func (s *escalation) ask(e *engine, q *inquiry, c *call, cost int64, r *http.Request, seen sight) (exact.Verdict, error) {
	if !s.breaker.admits(q.now) {
		return exact.Verdict{}, errNotAsked
	}
	// A client that hangs up must not leave it open whether it was counted, nor
	// have its impatience taken for an outage.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.Deadline)
	defer cancel()
	v, err := s.take(ctx, c, cost, r)
	if err == nil || errors.Is(err, exact.ErrFull) {
		s.traffic.answered()
	} else {
		means, busy := outage, errors.Is(err, exact.ErrBusy)
		if busy || ctx.Err() != nil || timedOut(err) {
			means = s.traffic.judge(seen, q.now, e.now(), busy)
		}
		switch {
		case means == load:
			return v, errCrowded
		case means == outage:
			s.breaker.failed(q.now)
		}
		s.complain(e, q.now, err)
		return v, err
	}
	s.breaker.succeeded()
	if down := &e.alarms.down; down.Load() && down.Swap(false) { // each alarm has its all-clear, and no other
		e.log.Info("tallystick: exact counter answers again", "policy", e.base.policy.Name())
	}
	return v, err
}

// complain tells of a call that has failed: of an outage once, and of single failures,
// but of neither more than once a minute. One that comes too soon after another
// is told of by a later probe.
func (s *escalation) complain(e *engine, now time.Time, err error) {
	switch down := &e.alarms.down; {
	case !s.breaker.open():
		e.warn(&e.alarms.failed, now, "exact counter failed a request", "error", err)
	case !down.Load() && e.alarms.outage.due(now):
		down.Store(true)
		e.log.Error("tallystick: exact counter does not answer; "+s.Outage.consequence(), "policy", e.base.policy.Name(), "error", err)
	}
}

// timedOut reports whether an error is about a deadline. An engine may notice it a
// moment before the context does.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func (o Outage) consequence() string {
	if o == FailClosed {
		return "requests are refused until it does"
	}
	return "each instance decides by its tokens and memory until it does"
}

// take makes the call, and makes it once more under the same ID if the answer was
// lost: nobody is charged twice for a packet.
func (s *escalation) take(ctx context.Context, c *call, cost int64, r *http.Request) (exact.Verdict, error) {
	ask := exact.Call{Key: c.key, Cost: max(cost, 1), Policy: c.quotas}
	if cost == 0 {
		v, err := s.Counter.Peek(ctx, ask)
		v.Admitted = true
		return v, err
	}
	ask.ID = s.callID(c, r)
	v, err := s.Counter.Take(ctx, ask)
	if err != nil && !errors.Is(err, exact.ErrNotCounted) && ctx.Err() == nil {
		v, err = s.Counter.Take(ctx, ask)
	}
	return v, err
}

// callID returns an ID that no other request has. What the client calls its
// request never is one, unless the program has said so by a dangerous name.
func (s *escalation) callID(c *call, r *http.Request) string {
	if s.DangerouslyTrustIdempotencyKey {
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			sum := sha256.Sum256([]byte(c.key + "\x00" + key))
			return base64.RawURLEncoding.EncodeToString(sum[:16])
		}
	}
	return rand.Text()
}
