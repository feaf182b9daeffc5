// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A batcher makes calls, each by itself.
type batcher struct {
	prefix     string
	connection connection
	alone      bool // calls that are alone have a connection of their own

	scripts scripts

	alarms *alarms
	nodes  [maxNodes]node
	layout layout
}

// node is a batcher's state for one node of a cluster, or for a single server.
type node struct {
	out   chan struct{} // a place for each call that it has not answered
	lone  lone
	clock serverClock
}

// maxOut bounds the unanswered calls, abandoned ones included: the client has 1024
// places on a connection, and a call that finds none waits for one, regardless of its
// context.
const maxOut = 512

// onlyTime is the length of take.lua's answer to a call that was too late, and not
// counted.
const onlyTime = 8

// otherTime is the length of its answer to a call whose windows of the calendar are of another moment than the account is
// decided at: the time, and that moment. Nothing was counted.
const otherTime = 16

// A job is a script to run.
type job struct {
	script     *script
	keys, args []string

	clock *serverClock // whose reply begins with the server's time; or nil
	again bool         // running it twice is running it once
}

// run runs a script, as one round trip, except for the first time on a server.
func (e *batcher) run(ctx context.Context, j *job) (string, error) {
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
		// client gives its connection up.
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

// runAlone runs a script on a connection that was taken for it. It is not over if the server does
// not know the script, or the connection was closed and the script may run again.
func (e *batcher) runAlone(ctx context.Context, client rueidis.Client, l *lone, j *job) (said string, err error, over bool) {
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
func (e *batcher) heard(ctx context.Context, client rueidis.Client, j *job, said string, err error, sent time.Time) {
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

// node returns the node that has a key.
func (e *batcher) node(key string) *node { return &e.nodes[e.layout.part(key)] }

// tag is the key of an account.
func (e *batcher) tag(p *exact.Policy, key string) string { return e.tagOf(p.AccountName(key)) }

// tagOf is the key of an account: a hash, so all keys have one length and no byte has
// a meaning.
func (e *batcher) tagOf(name string) string {
	return e.prefix + "{" + base64.RawURLEncoding.EncodeToString([]byte(name)) + "}"
}

// trailKey is the key of a trail of an account.
func trailKey(tag string, id uint32) string { return tag + ":t:" + strconv.FormatUint(uint64(id), 36) }

// trailKeys appends the key of an account, and the keys of a policy's trails.
func trailKeys(keys []string, tag string, p *exact.Policy) []string {
	keys = append(keys, tag)
	for i := range p.Len() {
		if kindOf(p, i) == 'T' {
			keys = append(keys, trailKey(tag, p.ID(i)))
		}
	}
	return keys
}
