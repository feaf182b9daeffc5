package middleware

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
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

// markName names the limit that no request is checked against: in a token its
// time mark says until when the counter has refused its holder.
const markName = "exact-blocked"

// withMark returns limits and one more, whose entry in tokens is the mark. Of the
// longest window, so that a mark lies as far ahead as any refusal may.
func withMark(p *storeless.Policy) []storeless.Limit {
	limits, longest := make([]storeless.Limit, 0, p.Len()+1), time.Second
	for i := range p.Len() {
		l := p.Limit(i)
		limits, longest = append(limits, l), max(longest, l.Window)
	}
	return append(limits, storeless.Limit{Name: markName, Algorithm: storeless.LeakyBucket, Quota: 1, Window: longest})
}

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

// overload refuses what the counter has no room for. It is load and no outage:
// nobody may flood his way into the fallback.
func (e *engine) overload(q *inquiry, x *exchange) {
	d := &x.decision
	d.Reason, d.Status, d.RetryAfter = Overloaded, http.StatusServiceUnavailable, jittered(time.Second)
	e.fill(x, q, nil, nil, nil)
}

// marked returns what is shown with the mark of a refusal, or nil if a cheaper
// request might pass.
func (s *escalation) marked(q *inquiry, c *call, cost int64, wait time.Duration) *storeless.Tally {
	if cost != 1 {
		return nil
	}
	tally := c.fallback.Shown
	tally[s.mark] = storeless.State{At: stamp(q.now.Add(wait), &c.refusal)}
	return &tally
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

// printBits are the lowest bits of a mark: not time, but whom and which quotas it
// is about, so that a client that has moved to a larger tier is not held to what
// the smaller one refused. They cost four milliseconds of precision.
const printBits = 12

func stamp(until time.Time, k *counterKey) int64 {
	const low = 1<<printBits - 1
	return until.UnixMicro()&^low | int64(binary.BigEndian.Uint16(k[:])&low)
}

// blocked returns for how long the counter need not be asked, because it has
// refused the same before: on this instance, or on another that has said so in
// the token; and whether the client knows.
func (s *escalation) blocked(c *call, q *inquiry, cost int64) (wait time.Duration, told bool) {
	if cost == 0 {
		return 0, false
	}
	wait = s.spent.blocked(c.refusal, cost, q.now)
	if at := q.shown.shared[s.mark].At; at > q.now.UnixMicro() && at == stamp(time.UnixMicro(at), &c.refusal) {
		return max(wait, time.UnixMicro(at).Sub(q.now)), true
	}
	return wait, false
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
		case means == outage && s.breaker.failed(q.now):
			e.log.Error("tallystick: exact counter does not answer; "+s.Outage.consequence(), "policy", e.base.policy.Name(), "error", err)
		}
		return v, err
	}
	if s.breaker.succeeded() {
		e.log.Info("tallystick: exact counter answers again", "policy", e.base.policy.Name())
	}
	return v, err
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

// A charge is what [Refund] gives back.
type charge struct {
	engine  *engine
	q       *inquiry
	tally   storeless.Tally // afterwards
	receipt exact.Receipt   // zero: the counter did not answer
	refusal counterKey
}

// Refund gives back what the request was charged on a route with an [Exact]
// counter: on the counter, in memory and, while the response header is not yet
// written, in the token that goes with it. It is for a handler that could not do
// what the request has paid for. It works once for each request, within the
// windows it was charged in; otherwise the error is [exact.ErrNoRefund]. A client that
// another instance has refused meanwhile, or that shows a token which says so, stays
// refused until the time it was told: that is what a refusal remembered costs.
func Refund(w http.ResponseWriter, r *http.Request) error {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.charge == nil {
		return exact.ErrNoRefund
	}
	c := x.charge
	x.charge = nil
	e := c.engine
	if c.receipt != (exact.Receipt{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), e.exact.Deadline)
		defer cancel()
		if err := e.exact.Counter.Refund(ctx, c.receipt); err != nil {
			return fmt.Errorf("middleware: the exact counter gave nothing back: %w", err)
		}
		e.exact.refunds.Add(1)
		e.exact.spent.forget(c.refusal)
	}
	then, f := c.q.now, e.shared(c.q)
	c.q.now, f.Shown = e.now(), c.tally
	tally := storeless.Restore(e.memory, c.q.tier.fallback, then, c.q.now, &f, x.decision.Cost)
	e.reissue(x, c.q, &tally, w.Header())
	return nil
}
