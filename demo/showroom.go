// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// The showroom is the home page: one form, the instances that answer it, the visitor's own
// token, and what the bounds of the README look like from outside.

// showroomLimits is one limit, so that a token has one number that changes. Its window is
// long, so that nobody watches the count while it begins anew.
var showroomLimits = []middleware.Limit{{Quota: 5, Window: time.Hour}}

// A showroom is what the instances of one process have in common beside the secrets: an
// audience. It takes no part in any decision.
type showroom struct {
	visits    *visits
	streams   streams
	instances int
	limit     atomic.Pointer[middleware.LimitStatus] // the form's, to be told
	now       func() time.Time
	front     http.Handler  // the balancer, for browsers that run no script
	closed    chan struct{} // ends the streams
	close     func()
}

func newShowroom(instances int, now func() time.Time) *showroom {
	closed := make(chan struct{})
	s := &showroom{
		visits: newVisits(maxVisits), instances: instances, now: now,
		streams: streams{most: maxStreams}, closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
	s.limit.Store(&middleware.LimitStatus{Limit: showroomLimits[0]})
	return s
}

const maxStreams = 128 // of all visitors

// streams bounds how many are open.
type streams struct {
	open atomic.Int64
	most int64
}
