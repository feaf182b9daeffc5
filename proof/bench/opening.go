// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallystick/tallystick/middleware"
)

// An opening holds all that is open for a measurement.
type opening struct {
	closers []func() error
	redis   string                                     // the address of a server
	server  *redisServer                               // the same, if this process has started it
	self    string                                     // where its peers hear this process, if it has any
	members func(members []string)                     // tells it its peers, if any
	now     func() time.Time                           // in tests; nil: the clock of the machine
	tell    func(context.Context, middleware.Decision) // in tests: called for every decision of ours
}

// A redisServer is a redis-server that this process has started: on a loopback port, without
// persistence. The time that it uses is for one row alone.
type redisServer struct{ admin *redis.Client }

// closing has f called at the end; what is opened last is closed first.
func (o *opening) closing(f func() error) { o.closers = append(o.closers, f) }

func (o *opening) close() (err error) {
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f())
	}
	o.closers = nil
	return err
}

// The names of the rows that others are compared with, and the beginning of ours.
const (
	reference = "httprate"
	lowest    = "floor"
	ourName   = "tallystick"
	redisRate = "redis_rate"
	none      = "none" // the handler alone, where requests are served for real
)

// All limiters of a row get the same terms.
type terms struct {
	quota   int // requests of one client in window, all of which may come at once
	window  time.Duration
	clients int // how many there are going to be, for a limiter that wants to know
}

// Under plenty every request is allowed.
func plenty(clients int) terms { return terms{1_000_000_000, time.Hour, clients} }

// A builder makes a limiter around the served handler.
type builder func(*opening, terms) http.Handler

// secret is the same for all instances: tokens are issued by one and verified by others.
func secret() []byte { return bytes.Repeat([]byte("0123456789abcdef"), 2) }

// roomy is how many tallies a memory is made for that must remember all of the clients: at half
// of its nominal load it has room for each of a million.
func roomy(clients int) int {
	const byDefault = 1 << 16
	return max(byDefault, 1<<int(math.Ceil(math.Log2(float64(2*clients)))))
}

// peer is the key of every limiter that can be told how to find it.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// A failure ends the run: what cannot be measured is no figure.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// failing returns the error with which something fails.
func failing(do func()) (err error) {
	defer caught(&err)
	do()
	return nil
}

// caught gives a failure back as an error: defer caught(&err).
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(p.error, *err)
	default:
		panic(p)
	}
}
