// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// An engine makes calls, each by itself.
type engine struct {
	prefix     string
	connection connection
	alone      bool // calls that are alone have a connection of their own

	scripts scripts

	alarms *alarms
	nodes  [maxNodes]node
	layout layout
}

// A node is what an engine knows of one node of a cluster, or of a server without one.
type node struct {
	out   chan struct{} // a place for each call that it has not answered
	lone  lone
	clock serverClock
}

// maxOut is how many calls may be unanswered at once, with those whose callers have
// given up: the client has 1024 places on a connection, and a call that finds none waits
// for one, whatever its context says.
const maxOut = 512

func newEngine(cfg Config, dial func() (rueidis.Client, error)) *engine {
	told := &alarms{log: cfg.Logger}
	e := &engine{
		prefix:     cfg.Prefix,
		alarms:     told,
		connection: connection{dial: dial, watch: watch{allowed: cfg.DangerouslyAllowEviction, alarms: told, every: watchEvery}},
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
	keys := trailKeys(make([]string, 0, 3+p.Len()), tag, p)
	args := make([]string, 1, 1+len(calls))
	named := false
	for i := range calls {
		named = named || calls[i].ID != ""
		args = append(args, hashed(calls[i].ID))
	}
	if named {
		keys = append(keys, tag+":s:0", tag+":s:1")
	}
	clock := &e.node(tag).clock
	deadline := int64(0)
	if end, ok := ctx.Deadline(); ok {
		deadline = clock.at(time.Now(), end)
	}
	for booked := call.Ahead > 0; ; {
		said, err := e.runTake(ctx, p, keys, args, call, charge, booked, deadline, clock)
		switch {
		case err != nil:
			return nil, err
		case said == onlyOther && !booked:
			booked = true
		// A node that says it is over while it is not has had its clock set, or is another
		// than it was: it is asked again, without a deadline.
		case len(said) == onlyTime && deadline > 0:
			deadline = 0
		default:
			return e.tell(calls, charge, booked, said)
		}
	}
}

// onlyOther is what a script answers that does not know of calls that are booked, where one is:
// it has done nothing, and the script is wanted that does.
const onlyOther = ""

// onlyTime is how long the answer of take.lua is that has counted nothing because it was
// too late.
const onlyTime = 8

// runTake runs take.lua, by a deadline in the server's time.
func (e *engine) runTake(ctx context.Context, p *exact.Policy, keys, args []string, call *exact.Call, charge, booked bool, deadline int64, clock *serverClock) (string, error) {
	packed := pack(make([]byte, 0, 256), call.Cost)
	packed = append(packed, flag(charge), flag(call.Past || call.Cost == 0))
	pause := (call.Pause + time.Microsecond - 1).Microseconds()
	packed = pack(packed, pause, deadline, hold(p))
	if booked {
		packed = pack(packed, call.Ahead.Microseconds())
	}
	args[0] = string(numbers(packed, p))
	return e.run(ctx, &job{script: e.scripts.of(p, booked).take, keys: keys, args: args, clock: clock, again: !charge || !slices.Contains(args, "")})
}

// Refund implements [exact.Counter].
func (e *engine) Refund(ctx context.Context, r exact.Receipt) error {
	is, ok := parseSerial(&r)
	if !ok {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	tag, at := e.tag(r.Policy, r.Key), r.At.UnixMicro()
	keys := append(trailKeys(nil, tag, r.Policy), tag+":r:"+strconv.FormatInt(is.number, 10)+":"+strconv.FormatInt(at, 10))
	packed := numbers(pack(nil, is.number, at, r.Cost, hold(r.Policy)), r.Policy)
	args, booked := []string{string(packed), string(pack(nil, is.places...))}, is.places != nil
	said, err := e.run(ctx, &job{script: e.scripts.of(r.Policy, booked).refund, keys: keys, args: args})
	if err == nil && said == onlyOther && !booked {
		said, err = e.run(ctx, &job{script: e.scripts.of(r.Policy, true).refund, keys: keys, args: args})
	}
	switch {
	case err == nil && said == "2":
		return exact.ErrLateRefund
	case err == nil && said != "1":
		return exact.ErrNoRefund
	}
	return err
}

// A job is a script to run.
type job struct {
	script     *script
	keys, args []string

	clock *serverClock // whose reply begins with the server's time; or nil
	again bool         // running it twice is running it once
}

// run runs a script, as one round trip, except for the first time on a server.
func (e *engine) run(ctx context.Context, j *job) (string, error) {
	client, err := e.connection.get(ctx)
	if err != nil {
		return "", err
	}
	n := e.node(j.keys[0])
	if e.alone && len(n.out) == 0 && client.Mode() == rueidis.ClientModeStandalone && n.lone.try(ctx, client) {
		if said, err, over := e.runAlone(ctx, client, &n.lone, j); over {
			return said, err
		}
	}
	select {
	case n.out <- struct{}{}:
	default:
		return "", exact.ErrBusy
	}
	type answer struct {
		said string
		err  error
	}
	done, sent := make(chan answer, 1), time.Now()
	go func() {
		// Without the end of ctx: the place is taken until the server answers, or the
		// client gives its connection up for dead.
		said, err := j.script.lua.Exec(context.WithoutCancel(ctx), client, j.keys, j.args).ToString()
		<-n.out
		e.heard(ctx, client, j, said, err, sent)
		done <- answer{said, err}
		e.layout.refresh(client, err != nil)
		e.connection.refresh(client)
	}()
	select {
	case a := <-done:
		return a.said, classify(a.err)
	case <-ctx.Done():
		return "", fmt.Errorf("%w: redis: %w", exact.ErrMaybeCounted, ctx.Err())
	}
}

// runAlone runs a script on a connection that was taken for it. It is not over where the
// server does not know the script, or where the connection was closed and the script may run again.
func (e *engine) runAlone(ctx context.Context, client rueidis.Client, l *lone, j *job) (said string, err error, over bool) {
	sent := time.Now()
	cmd := client.B().Evalsha().Sha1(j.script.sha).Numkeys(int64(len(j.keys))).Key(j.keys...).Arg(j.args...).Build()
	said, err = l.do(ctx, client, cmd)
	l.taken.Store(false)
	if told, ok := rueidis.IsRedisErr(err); ok && told.IsNoScript() {
		return "", nil, false
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case err != nil:
		if _, ok := rueidis.IsRedisErr(err); !ok && j.again {
			return "", nil, false
		}
	}
	e.heard(ctx, client, j, said, err, sent)
	if e.connection.due() {
		go e.connection.ask(client)
	}
	return said, classify(err), true
}

// heard learns from an answer.
func (e *engine) heard(ctx context.Context, client rueidis.Client, j *job, said string, err error, sent time.Time) {
	if err != nil {
		e.connection.failed(client, err)
		if saidOf(err, unreadable) {
			e.alarms.unreadable(j.keys[0], err)
		}
	}
	if err == nil && j.clock != nil && len(said) >= onlyTime {
		j.clock.saw((&reply{rest: said}).double(), sent, len(said) == onlyTime && ctx.Err() == nil)
	}
}

// tag is the key of an account.
func (e *engine) tag(p *exact.Policy, key string) string { return e.tagOf(p.AccountName(key)) }

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// hashed is an ID as scripts know it: each has the same length, and no two are the same.
func hashed(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return string(sum[:16])
}

func logged(a storeless.Algorithm) bool {
	return a == storeless.SlidingLog || a == storeless.RollingDay
}

// trailKey is the key of a trail of an account.
func trailKey(tag string, id uint32) string { return tag + ":t:" + strconv.FormatUint(uint64(id), 36) }

// trailKeys appends the key of an account, and those of the trails of a policy.
func trailKeys(keys []string, tag string, p *exact.Policy) []string {
	keys = append(keys, tag)
	for i := range p.Len() {
		if logged(p.Limit(i).Algorithm) {
			keys = append(keys, trailKey(tag, p.ID(i)))
		}
	}
	return keys
}
