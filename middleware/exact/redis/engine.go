package redis

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

//go:embed prelude.lua
var prelude string

//go:embed take.lua
var takeLua string

//go:embed refund.lua
var refundLua string

// An engine makes calls, each by itself.
type engine struct {
	prefix string
	line   line

	taking, refunding *rueidis.Lua

	alarms *alarms
	nodes  [maxNodes]node
	layout layout
}

// A node is what an engine knows of one node of a cluster, or of a server without one.
type node struct {
	out   chan struct{} // a place for each call that it has not answered
	clock serverClock
}

// maxOut is how many calls may be unanswered at once, with those whose callers have
// given up: the client has 1024 places on a connection, and a call that finds none waits
// for one, whatever its context says.
const maxOut = 512

func newEngine(cfg Config, dial func() (rueidis.Client, error)) *engine {
	told := &alarms{log: cfg.Logger}
	e := &engine{
		prefix:    cfg.Prefix,
		alarms:    told,
		line:      line{dial: dial, watch: watch{allowed: cfg.DangerouslyAllowEviction, alarms: told, every: watchEvery}},
		taking:    rueidis.NewLuaScript(prelude + takeLua),
		refunding: rueidis.NewLuaScript(prelude + refundLua),
	}
	for i := range e.nodes {
		e.nodes[i].out = make(chan struct{}, maxOut)
	}
	return e
}

// Take implements [exact.Counter].
func (e *engine) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := e.TakeAll(ctx, []exact.Call{call})
	if err != nil {
		return exact.Verdict{}, err
	}
	return v[0], nil
}

// TakeAll implements [exact.Batcher].
func (e *engine) TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error) {
	for i := range calls {
		if err := calls[i].Check(ctx); err != nil {
			return nil, err
		}
	}
	return e.take(ctx, calls, true)
}

// Peek implements [exact.Counter].
func (e *engine) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	call.ID = ""
	v, err := e.take(ctx, []exact.Call{call}, false)
	if err != nil {
		return exact.Verdict{}, err
	}
	return v[0], nil
}

func (e *engine) take(ctx context.Context, calls []exact.Call, charge bool) ([]exact.Verdict, error) {
	call := &calls[0]
	p, tag := call.Policy, e.tag(call.Policy, call.Key)
	keys := append([]string{tag}, logKeys(tag, p)...)
	args := append(make([]string, 0, 6+7*p.Len()+len(calls)),
		strconv.FormatInt(call.Cost, 10), flag(charge), strconv.FormatInt(exact.IDLife.Milliseconds()*6/5, 10),
		strconv.Itoa(p.Len()), strconv.Itoa(len(calls)), "0")
	args = append(args, limits(p)...)
	for i := range calls {
		args = append(args, flag(calls[i].ID != ""))
		if calls[i].ID != "" {
			keys = append(keys, tag+":i:"+calls[i].ID)
		}
	}
	reply, err := e.runInTime(ctx, keys, args)
	if err != nil {
		return nil, err
	}
	return e.tell(calls, charge, reply)
}

// Refund implements [exact.Counter].
func (e *engine) Refund(ctx context.Context, r exact.Receipt) error {
	serial, err := strconv.ParseInt(r.Serial, 36, 54)
	if err != nil || r.Policy == nil || r.Cost < 1 {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	tag, at := e.tag(r.Policy, r.Key), strconv.FormatInt(r.At.UnixMicro(), 10)
	keys := append([]string{tag, tag + ":r:" + strconv.FormatInt(serial, 10) + ":" + at}, logKeys(tag, r.Policy)...)
	args := append([]string{strconv.FormatInt(serial, 10), at, strconv.FormatInt(r.Cost, 10), strconv.Itoa(r.Policy.Len())}, limits(r.Policy)...)
	reply, err := e.run(ctx, e.refunding, keys, args, nil)
	if err == nil && (len(reply) != 1 || reply[0] != 1) {
		return exact.ErrNoRefund
	}
	return err
}

// argDeadline is where take.lua has the time until which its answer is waited for.
const argDeadline = 5

// runInTime runs take.lua with the deadline of ctx, by the clock of the server. A node
// that says it is over while it is not has had its clock set, or is another than it was:
// it is asked again, without one.
func (e *engine) runInTime(ctx context.Context, keys, args []string) ([]int64, error) {
	clock := &e.node(keys[0]).clock
	if end, ok := ctx.Deadline(); ok {
		args[argDeadline] = strconv.FormatInt(clock.at(time.Now(), end), 10)
	}
	reply, err := e.run(ctx, e.taking, keys, args, clock)
	if err == nil && len(reply) == 1 {
		args[argDeadline] = "0"
		reply, err = e.run(ctx, e.taking, keys, args, clock)
	}
	return reply, err
}

// run runs a script, as one round trip, except for the first time on a server. Where
// clock is not nil, the reply begins with the server's time.
func (e *engine) run(ctx context.Context, script *rueidis.Lua, keys, args []string, clock *serverClock) ([]int64, error) {
	client, err := e.line.get(ctx)
	if err != nil {
		return nil, err
	}
	out := e.node(keys[0]).out
	select {
	case out <- struct{}{}:
	default:
		return nil, exact.ErrBusy
	}
	type answer struct {
		reply []int64
		err   error
	}
	done, sent := make(chan answer, 1), time.Now()
	go func() {
		// Without the end of ctx: the place is taken until the server answers, or the
		// client gives its connection up for dead.
		reply, err := script.Exec(context.WithoutCancel(ctx), client, keys, args).AsIntSlice()
		<-out
		if err != nil {
			e.line.failed(client, err)
		}
		if err == nil && clock != nil && len(reply) > 0 {
			clock.saw(reply[0], sent, len(reply) == 1 && ctx.Err() == nil)
		}
		done <- answer{reply, err}
		e.layout.refresh(client, err != nil)
		e.line.refresh(client)
	}()
	select {
	case a := <-done:
		return a.reply, classify(a.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: redis: %w", exact.ErrMaybeCounted, ctx.Err())
	}
}

// tag is the name of an account: a hash, so that every key has the same length and no
// byte of it a meaning.
func (e *engine) tag(p *exact.Policy, key string) string {
	sum := sha256.Sum256([]byte(p.AccountName(key)))
	return e.prefix + "{" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}"
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// The kinds of limits that the scripts know.
var kinds = map[storeless.Algorithm]string{
	storeless.SlidingWindow: "1",
	storeless.FixedWindow:   "2",
	storeless.TokenBucket:   "3",
	storeless.LeakyBucket:   "3",
	storeless.SlidingLog:    "4",
	storeless.RollingDay:    "5",
}

func logged(a storeless.Algorithm) bool {
	return a == storeless.SlidingLog || a == storeless.RollingDay
}

// logKeys are the keys of the logs of a policy.
func logKeys(tag string, p *exact.Policy) (keys []string) {
	for i := range p.Len() {
		if logged(p.Limit(i).Algorithm) {
			keys = append(keys, tag+":t:"+strconv.FormatUint(uint64(p.ID(i)), 36))
		}
	}
	return keys
}

// limits are the words by which scripts know the limits of a policy, seven for each:
// kind, id, quota, window, and of a bucket the emission interval, the time in which it
// empties, and how far ahead a mark may lie; times in µs.
func limits(p *exact.Policy) []string {
	words := make([]string, 0, 7*p.Len())
	for i := range p.Len() {
		l := p.Limit(i)
		var interval, empties, horizon int64
		window := l.Window.Microseconds()
		if l.Algorithm == storeless.TokenBucket || l.Algorithm == storeless.LeakyBucket {
			interval = (window + l.Quota - 1) / l.Quota
			empties = l.Burst * interval
			// Of any tier's bucket: nothing that is further ahead can be owed.
			horizon = storeless.MaxWindow.Microseconds()
		}
		words = append(words, kinds[l.Algorithm], strconv.FormatUint(uint64(p.ID(i)), 36))
		for _, n := range []int64{l.Quota, window, interval, empties, horizon} {
			words = append(words, strconv.FormatInt(n, 10))
		}
	}
	return words
}

// What take.lua says of a call.
const (
	refused = iota
	admitted
	refusedBefore
	admittedBefore
)

var errReply = errors.New("redis: the script answers what it should not; is another version of this package counting on this server?")

// tell puts the answer of the script into verdicts: from how the account stood, it takes
// the calls once more.
func (e *engine) tell(calls []exact.Call, charge bool, reply []int64) ([]exact.Verdict, error) {
	p := calls[0].Policy
	words := reader{rest: reply}
	now := time.UnixMicro(words.next())
	latest := words.next()
	if latest < 0 {
		e.alarms.wrongClock(time.Duration(-latest) * time.Microsecond)
		latest = 0
	}
	before := exact.Snapshot{Latest: latest * 1000, Serial: uint64(words.next())}
	for i := range p.Len() {
		l := p.Limit(i)
		switch {
		case logged(l.Algorithm):
			t := &before.Logs[i]
			t.Used = words.next()
			for range words.next() {
				t.Entries = append(t.Entries, exact.LogEntry{Until: words.next() * 1000, Cost: words.next()})
			}
		case l.Algorithm == storeless.TokenBucket || l.Algorithm == storeless.LeakyBucket:
			before.States[i].At = words.next()
		default:
			before.States[i] = storeless.State{At: words.next(), Cur: uint32(words.next()), Prev: uint32(words.next())}
		}
	}
	a := before.Account(p)
	verdicts := make([]exact.Verdict, len(calls))
	for i := range calls {
		v := &verdicts[i]
		switch what := words.next(); what {
		case refused, admitted:
			if charge {
				*v = a.Take(now, &calls[i])
			} else {
				*v = a.Peek(now, &calls[i])
			}
			if v.Admitted != (what == admitted) {
				return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
			}
		case refusedBefore:
			*v = a.Peek(now, &calls[i])
			if v.Replayed = true; v.Admitted {
				v.Admitted, v.Wait = false, time.Second // it would pass now, and was told not to
			}
		case admittedBefore:
			v.Admitted = true
			v.Receipt = exact.Receipt{Key: calls[i].Key, Policy: p}
			v.Receipt.Serial = strconv.FormatInt(words.next(), 36)
			v.Receipt.At, v.Receipt.Cost = time.UnixMicro(words.next()), words.next()
			*v = a.Replay(now, *v, &calls[i])
		default:
			return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
		}
	}
	if words.short || len(words.rest) > 0 {
		return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
	}
	return verdicts, nil
}

// A reader reads numbers until one is missing.
type reader struct {
	rest  []int64
	short bool
}

func (r *reader) next() int64 {
	if len(r.rest) == 0 {
		r.short = true
		return 0
	}
	n := r.rest[0]
	r.rest = r.rest[1:]
	return n
}
