// SPDX-License-Identifier: Apache-2.0

package exact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Counter counts exactly for all that share it, instances of a program or several. It must be
// safe for concurrent use. Package exacttest says what exactly it must do, and tests any Counter
// for it.
//
// A refusal is a Verdict. An error means that there is no verdict: it is, by [errors.Is],
// [ErrNotCounted] if nothing was charged, and [ErrMaybeCounted] if that is not known; an error that
// is neither counts as the latter. A failed commit is the latter, unless the engine says for
// certain that it has not happened: a transaction that was rolled back, a condition that did not
// hold. A call obeys the deadline of its context, which is what keeps a stuck engine from sticking
// the requests too. Errors are logged: none may hold a key.
type Counter interface {
	// Take charges the call on every limit of its policy, or on none if one of
	// them has no room, as one atomic step; Past, Ahead and Pause change that, and every
	// Counter must support them. Only an admitted call changes the stored state: a refusal
	// needs no write.
	//
	// A call whose ID the counter has admitted within [IDLife] for this Key gets that admission
	// again, Replayed, with the same Receipt and the limits as they stand now, whatever else it
	// says, and is not charged again; of a call that was booked, with what it has to wait still.
	// How many IDs are remembered, and by which processes, is for the engine to say. A refusal may
	// be remembered too, by its Wait and whether it was Impossible, no more; otherwise it is
	// decided anew, and no call is charged twice.
	Take(ctx context.Context, call Call) (Verdict, error)

	// Peek says what Take would, and charges nothing. ID does not count.
	Peek(ctx context.Context, call Call) (Verdict, error)

	// Refund gives back what an admitted call was charged, on every limit in whose window it still
	// counts; a receipt whose Cost was lowered gives back that much, and one with Costs on some of
	// the limits on these alone. It does so once for each charge, or each limit of a call with
	// Costs: a second time, or when no window of the receipt is left, it changes nothing and
	// returns [ErrNoRefund]. So it does for the zero Receipt, whose Policy is nil; and with
	// [ErrLateRefund] for a receipt that is not among the last 8192 charges of its Key. None of
	// these is lost. After [ErrMaybeCounted] it may be asked again.
	Refund(ctx context.Context, r Receipt) error
}

// IDLife is how long a Counter remembers the ID of an admitted call. An ID is
// for repeating a call whose answer was lost, within a deadline of some tens of
// milliseconds; longer memory is paid for on every call.
const IDLife = 10 * time.Second

// A Call asks for something to be counted: now if there is room (the zero values of Past,
// Ahead and Pause), or whether there is room or not, or as soon as there is.
type Call struct {
	// Key names the thing counted: one customer, one product of a customer's. Permitted: 1 to
	// [MaxKey] bytes of any kind. Counters of the same Key under policies of
	// different names are different.
	Key string

	// Cost is charged on every limit. Permitted: 1 and more, also to Peek; 0 with Pause;
	// at most [storeless.MaxQuota] with Past.
	Cost int64

	// Costs, if any is not 0, are charged in place of Cost, each on the limit of its place in Policy: limits may count
	// different things, such as requests and bytes. Cost is then the largest of them. A limit at 0 is not charged,
	// and refuses nothing. Permitted: 0 and more; 0 beyond the limits of Policy; none without a Cost. A call that is repeated by its ID
	// has the same Costs. Not with Ahead or Pause.
	Costs [storeless.MaxLimits]int64

	// Policy holds the limits.
	Policy *Policy

	// ID makes the call repeatable, see [Counter.Take]; "" does not. It must be
	// fresh for each request, 16 random bytes or so, and at most 64 bytes long:
	// a client that can choose it chooses to be counted once.
	ID string

	// Past charges the call although there may be no room: for what was used already. It is
	// always admitted, in a pause too, and however much it costs. Windows then stand above
	// their quota until they end, and a bucket owes it all; but no count exceeds
	// [storeless.MaxQuota], and no bucket is emptied later than [storeless.MaxWindow] from now.
	Past bool

	// Ahead books the call: it is admitted for later, as soon as there is room behind what was
	// booked before it, at most this long from now. Wait of the verdict says how long from now, 0
	// for at once, in microseconds; no other admission has any. A refusal says when to ask again
	// with the same Ahead. Refund before its time gives it back whole: what was last is as if it
	// had never been, and the place of another is taken by the next call with Ahead, while there is
	// time. 64 such places are kept for a key; of more, those that come first are lost until their
	// moment has passed. Permitted: up to [MaxAhead], without Past and Pause, where all limits are
	// a [storeless.TokenBucket] or [storeless.LeakyBucket]: what counts in windows has no first
	// moment at which there is room, but only less of it used.
	Ahead time.Duration

	// Pause blocks the key for this long: no call is admitted, nor booked for a moment within it.
	// It is for a service that asked to be left alone. A longer pause stays, and so do bookings
	// that were granted before. Permitted: up to [MaxPause], with Past or with a Cost of 0, so that
	// it does not hang on there being room.
	Pause time.Duration
}

// Bounds of a [Call].
const (
	MaxKey = 256
	maxID  = 64

	// MaxAhead is how far ahead a call may be booked. No caller waits longer than this. A booking
	// of a process that ended before it used it or gave it back is lost to the others.
	MaxAhead = time.Hour

	// MaxPause is how long a pause may be: the Retry-After of a service that counts by days. A date
	// that one process has misread stops all of them for no longer.
	MaxPause = 24 * time.Hour
)

// Check says why the call cannot even begin, or nil: an error that is
// [ErrNotCounted], because of a mistake or because ctx has ended. Every Counter
// begins with it.
func (c *Call) Check(ctx context.Context) error {
	switch {
	case c.Policy == nil:
		return fmt.Errorf("%w: Policy is nil", ErrCall)
	case len(c.Key) < 1 || len(c.Key) > MaxKey:
		return fmt.Errorf("%w: Key must have 1 to 256 bytes", ErrCall)
	case c.Cost < 1 && (c.Cost < 0 || c.Pause == 0):
		return fmt.Errorf("%w: Cost must be at least 1, or 0 with a Pause", ErrCall)
	case !c.Policy.plan.Prices(c.Cost, &c.Costs):
		return fmt.Errorf("%w: Costs must be 0 and more, of the limits of Policy alone, and the largest must be Cost", ErrCall)
	case c.Past && c.Cost > storeless.MaxQuota:
		return fmt.Errorf("%w: Cost must be at most 2147483647 with Past", ErrCall)
	case len(c.ID) > maxID:
		return fmt.Errorf("%w: ID must have at most 64 bytes", ErrCall)
	case c.Ahead < 0 || c.Ahead > MaxAhead:
		return fmt.Errorf("%w: Ahead must be from 0 to 1h", ErrCall)
	case c.Ahead > 0 && (c.Past || c.Pause != 0):
		return fmt.Errorf("%w: Ahead must be 0 with Past or Pause", ErrCall)
	case (c.Ahead > 0 || c.Pause > 0) && c.Costs != [storeless.MaxLimits]int64{}:
		return fmt.Errorf("%w: Ahead and Pause must be 0 with Costs", ErrCall)
	case c.Ahead > 0 && !c.Policy.plan.BucketsOnly:
		return fmt.Errorf("%w: Ahead needs a Policy that has no limits but a TokenBucket or LeakyBucket", ErrCall)
	case c.Pause < 0 || c.Pause > MaxPause:
		return fmt.Errorf("%w: Pause must be from 0 to 24h", ErrCall)
	case c.Pause > 0 && c.Cost > 0 && !c.Past:
		return fmt.Errorf("%w: Pause needs Past, or a Cost of 0", ErrCall)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	return nil
}

// A Verdict is the answer of a Counter. Its Wait is the wait of a refusal, in whole seconds, or of
// a booked call, see Call.Ahead.
type Verdict struct {
	storeless.Verdict

	// Replayed says that this is the verdict of an earlier call of the same ID.
	Replayed bool

	// Receipt of a call that was charged, for [Counter.Refund]. Its holder
	// may lower a count.
	Receipt Receipt
}

// A Receipt says what was charged, and for when by the counter's clock. The zero
// Receipt is good for nothing.
type Receipt struct {
	Key    string
	Cost   int64
	Costs  [storeless.MaxLimits]int64 // as in Call
	Policy *Policy
	At     time.Time

	// Serial tells the charges of one Key apart. Counters choose it.
	Serial string
}

var (
	// ErrNotCounted says that a call was not counted and never will be.
	ErrNotCounted = errors.New("exact: not counted")

	// ErrFull says that a counter has no room for another key. Wait of the verdict beside it
	// may say how long until there is, 0 that this is not known. It is
	// [ErrNotCounted], and load rather than failure: the engine works, and a client
	// that invents keys must not be able to make it look dead.
	ErrFull = fmt.Errorf("%w: the counter is full of live keys; give it more room", ErrNotCounted)

	// ErrBusy says that a counter has more calls under way than it may. It is
	// [ErrNotCounted], and load rather than failure, like [ErrFull].
	ErrBusy = fmt.Errorf("%w: too many calls are under way", ErrNotCounted)

	// ErrContended says that a call has lost every race for its key against other calls, where a
	// counter stores a key only if no other call has changed it meanwhile. It is [ErrNotCounted],
	// and load rather than failure, like [ErrFull]: each race that is lost was won by another call,
	// so that the engine works.
	ErrContended = fmt.Errorf("%w: too many others change this key at once", ErrNotCounted)

	// ErrMaybeCounted says that a call may have been counted: its answer was
	// lost. Repeating it with the same ID finds out.
	ErrMaybeCounted = errors.New("exact: may have been counted")

	// ErrNoArchive says that a counter cannot list, restore or forget accounts, for example to
	// reset one.
	ErrNoArchive = errors.New("exact: this counter cannot list, restore or forget accounts; ask the engine behind it")

	// ErrNoRefund says that there is nothing to give back: it was given back
	// before, or it counts in no window any more.
	ErrNoRefund = errors.New("exact: nothing to refund")

	// ErrCall says that there is a mistake in a [Call]. It is [ErrNotCounted], and goes on with the field and what is permitted.
	ErrCall = fmt.Errorf("%w: a mistake in the Call", ErrNotCounted)

	// ErrLateRefund says that a charge can no longer be refunded: its key was
	// charged 8192 times since, or its account has begun anew, or the receipt is invented. It is [ErrNoRefund].
	ErrLateRefund = fmt.Errorf("%w: it is not one of the last 8192 charges of its key", ErrNoRefund)
)
