// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Bounds of the wire.
const (
	maxRequest = 128 << 10
	maxAnswer  = 1 << 20 // a line
	maxIDs     = 256     // in a request: what a counter may take in one go

	// maxCalls is how many keys a request is about at most: no more than a Worker may ask
	// objects for one request, and what one more saves is little.
	maxCalls = 32

	// skew is how far the time of a request may be from the owner's, either way. Within twice
	// that a recorded request could be repeated, and an ID is known for longer.
	skew = 4 * time.Second

	// maxWait bounds what a call says of its deadline, and how long an owner waits for a body.
	maxWait = 10 * time.Second
)

// A request asks an owner for calls. Times are in milliseconds, durations as named; bytes are
// in base64url without padding.
type request struct {
	At       int64             `json:"at"` // Unix ms by the owner's clock, as far as the caller knows it
	Policies []json.RawMessage `json:"policies"`
	Calls    []call            `json:"calls"`
}

// What can be asked for.
const (
	opTake   = "take"
	opPeek   = "peek"
	opRefund = "refund"
)

// A call is calls for one key, that differ in nothing but their ID.
type call struct {
	Op      string   `json:"op"`
	Wait    int64    `json:"wait"`   // ms that the caller waits for the answer
	Policy  int      `json:"policy"` // which one of the request's
	Key     string   `json:"key"`
	Cost    int64    `json:"cost"`            // 0 with Costs, so that an owner that knows none refuses the call
	Costs   []int64  `json:"costs,omitempty"` // of each limit
	IDs     []string `json:"ids,omitempty"`   // of take: one for each call
	Past    bool     `json:"past,omitempty"`
	Ahead   int64    `json:"ahead,omitempty"`   // µs
	Pause   int64    `json:"pause,omitempty"`   // µs
	Receipt *receipt `json:"receipt,omitempty"` // of refund
}

// price sets what the call costs.
func (c *call) price(is *exact.Call) {
	if c.Cost = is.Cost; is.Costs != [storeless.MaxLimits]int64{} {
		c.Cost, c.Costs = 0, is.Costs[:is.Policy.Len()]
	}
}

// priced sets what a call costs that was read.
func (c *call) priced(is *exact.Call) error {
	if is.Cost = c.Cost; len(c.Costs) > 0 {
		if c.Cost != 0 || copy(is.Costs[:], c.Costs) < len(c.Costs) {
			return errMalformed
		}
		is.Cost = slices.Max(c.Costs)
	}
	return nil
}

// verdicts returns how many a call has.
func (c *call) verdicts() int { return max(1, len(c.IDs)) }

// A receipt holds what a refund gives back, but for what the call says already.
type receipt struct {
	Serial string `json:"serial"`
	At     string `json:"at"` // Unix ns, in decimal digits: more than a double holds
}

// An answer is a line of what became of a request: of some of its calls, or an error that is
// about all of them.
type answer struct {
	At       int64     `json:"at"` // Unix ms by the owner's clock
	Error    string    `json:"error,omitempty"`
	Verdicts []verdict `json:"verdicts,omitempty"`
}

// The errors of an answer, and of a verdict. After any other error the call may have been counted.
const (
	staleError     = "stale"       // At is too far from the owner's time, or before it began; not counted
	busyError      = "busy"        // load; not counted
	fullError      = "full"        // load; not counted
	contendedError = "contended"   // load; not counted
	notCounted     = "not-counted" // not counted
	noRefundError  = "no-refund"   // there is nothing to give back
	lateRefund     = "late-refund" // it comes back no more
	callError      = "call"        // the call is mistaken; not counted
	maybeCounted   = "maybe-counted"
	malformedError = "malformed" // not counted
	algorithmError = "algorithm" // the owner does not know an algorithm of the policy; not counted
)

var (
	errAlgorithm = errors.New("remote: an algorithm that is not known here")
	errMalformed = errors.New("remote: a call that cannot be read")
)

// A verdict tells what became of one ID of a take, of a peek, or of a refund. Of a refund it has
// the error alone.
type verdict struct {
	N          int        `json:"n"` // which one of the request's
	Error      string     `json:"error,omitempty"`
	Admitted   bool       `json:"admitted,omitempty"`
	Impossible bool       `json:"impossible,omitempty"`
	Replayed   bool       `json:"replayed,omitempty"`
	Wait       int64      `json:"wait,omitempty"` // µs
	Limits     []standing `json:"limits,omitempty"`
	Receipt    *receipt   `json:"receipt,omitempty"`
	Cost       int64      `json:"cost,omitempty"` // of the receipt
}

// A standing is how a limit stands: what is left, seconds until that changes, and 1 if the
// limit refused.
type standing [3]int64

// A wirePolicy is a policy as both ends write it.
type wirePolicy struct {
	Name   string      `json:"name"`
	Limits []wireLimit `json:"limits"`
}

type wireLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"` // as String of [storeless.Algorithm], or "calendar-day", -week or -month
	Quota     int64  `json:"quota"`
	Window    int64  `json:"window"` // seconds
	Burst     int64  `json:"burst,omitempty"`

	// Ends are of a window of the calendar, and no zone: when the window of the call begins and ends, and when the next one
	// ends, in Unix seconds.
	Ends []int64 `json:"ends,omitempty"`
}

// calendarPrefix begins the name of an algorithm that owners before windows of the calendar do not know.
const calendarPrefix = "calendar-"

// encodePolicy writes a policy as it is around a moment, always with the same bytes.
func encodePolicy(p *exact.Policy, at time.Time) json.RawMessage {
	w := wirePolicy{Name: p.Name()}
	for i := range p.Len() {
		l := p.Limit(i)
		burst := l.Burst
		if l.Algorithm != storeless.TokenBucket {
			burst = 0 // it is a default
		}
		algorithm, ends := l.Algorithm.String(), []int64(nil)
		if c := p.Plan().Calendars[i]; c != nil {
			algorithm, ends = calendarPrefix+l.Calendar, c.Tell(at)
		}
		w.Limits = append(w.Limits, wireLimit{l.Name, algorithm, l.Quota, int64(l.Window / time.Second), burst, ends})
	}
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and integers
	}
	return b
}

// decodePolicy compiles what encodePolicy wrote.
func decodePolicy(raw []byte) (*exact.Policy, error) {
	var w wirePolicy
	if json.Unmarshal(raw, &w) != nil {
		return nil, errMalformed
	}
	limits := make([]storeless.Limit, len(w.Limits))
	for i, l := range w.Limits {
		limits[i] = storeless.Limit{Name: l.Name, Algorithm: algorithmOf(l.Algorithm), Quota: l.Quota, Burst: l.Burst}
		if unit, ok := strings.CutPrefix(l.Algorithm, calendarPrefix); ok && calendar.Number(unit) > 0 {
			limits[i].Algorithm, limits[i].Calendar = storeless.FixedWindow, unit
		}
		if limits[i].Algorithm > storeless.RollingDay {
			return nil, errAlgorithm
		}
		if l.Window < 1 || l.Window > int64(storeless.MaxWindow/time.Second) {
			return nil, errMalformed
		}
		limits[i].Window = time.Duration(l.Window) * time.Second
	}
	p, err := exact.Compile(w.Name, limits)
	if err != nil {
		return nil, errMalformed
	}
	for i, l := range limits {
		if l.Calendar == "" {
			continue
		}
		if p.Plan().Calendars[i], err = calendar.Told(l.Calendar, w.Limits[i].Ends); err != nil { // nothing else has the plan yet
			return nil, errMalformed
		}
	}
	return p, nil
}

// algorithmOf returns the algorithm of a name, or one that no policy may have.
func algorithmOf(name string) storeless.Algorithm {
	for a := storeless.SlidingWindow; a <= storeless.RollingDay; a++ {
		if a.String() == name {
			return a
		}
	}
	return storeless.RollingDay + 1
}

func encode(b string) string { return base64.RawURLEncoding.EncodeToString([]byte(b)) }

func decode(s string) (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return string(b), err
}

// named are the errors that come out as they went in. An error that is also another of them stands
// before that one.
var named = []struct {
	name string
	err  error
}{
	{fullError, exact.ErrFull}, {busyError, exact.ErrBusy}, {contendedError, exact.ErrContended},
	{lateRefund, exact.ErrLateRefund}, {noRefundError, exact.ErrNoRefund},
	{malformedError, errMalformed}, {algorithmError, errAlgorithm},
	{callError, exact.ErrCall}, {notCounted, exact.ErrNotCounted},
}

// errorOf names an error of a counter, or of a call that is none.
func errorOf(err error) string {
	for _, n := range named {
		if errors.Is(err, n.err) {
			return n.name
		}
	}
	return maybeCounted
}

// errorNamed is the error of a name.
func errorNamed(name string) error {
	switch name {
	case algorithmError:
		return fmt.Errorf("%w: the owner does not know an algorithm of the policy", exact.ErrNotCounted)
	case staleError, notCounted, callError, malformedError:
		return fmt.Errorf("%w: the owner says %q", exact.ErrNotCounted, name)
	}
	for _, n := range named {
		if n.name == name {
			return n.err
		}
	}
	return fmt.Errorf("%w: the owner of the counter does not know", exact.ErrMaybeCounted)
}
