package exact

import "time"

// Idempotency remembers what became of calls that have an ID, for [IDLife] at least and
// twice that at most. Like [Account] it is for those who write a [Counter], and not
// safe for concurrent use. The zero Idempotency remembers nothing yet.
type Idempotency struct {
	young, old map[asked]reply // of the last IDLife, and of the one before
	turned     time.Time
}

// asked is what a call asked for: names and IDs may hold any byte.
type asked struct{ name, id string }

// A reply is what became of a call.
type reply struct {
	refusal *Verdict // nil: it was admitted
	receipt Receipt
}

// Find returns the verdict of an earlier call with that ID for that name of what is
// counted. It is for [Account.Replay] to complete.
func (r *Idempotency) Find(now time.Time, name, id string) (Verdict, bool) {
	r.turn(now)
	key := asked{name, id}
	found, ok := r.young[key]
	if !ok {
		found, ok = r.old[key]
	}
	switch {
	case !ok:
		return Verdict{}, false
	case found.refusal != nil:
		return *found.refusal, true
	}
	v := Verdict{Receipt: found.receipt}
	v.Admitted = true
	return v, true
}

// Keep remembers a verdict.
func (r *Idempotency) Keep(now time.Time, name, id string, v Verdict) {
	r.turn(now)
	kept := reply{receipt: v.Receipt}
	if !v.Admitted {
		kept.refusal = &v
	}
	if r.young == nil {
		r.young = make(map[asked]reply)
	}
	r.young[asked{name, id}] = kept
}

// Forget forgets a call.
func (r *Idempotency) Forget(name, id string) {
	delete(r.young, asked{name, id})
	delete(r.old, asked{name, id})
}

// turn forgets what need not be remembered any more. A clock that steps back keeps
// it, until it is there again; one that steps back further was wrong before.
func (r *Idempotency) turn(now time.Time) {
	switch passed := now.Sub(r.turned); {
	case passed >= 2*IDLife:
		r.young, r.old, r.turned = nil, nil, now
	case passed < -2*IDLife:
		r.turned = now
	case passed >= IDLife:
		r.young, r.old, r.turned = nil, r.young, now
	}
}
