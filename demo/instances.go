// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

// maxInstances keeps a slip of the finger from taking all memory: an instance
// takes about 16 MB once all of its four memories is used.
const maxInstances = 100

// instances are servers behind a load balancer that knows no client: requests
// go to them in turn. They share the secrets and, for the paid route alone, the
// counter.
type instances struct {
	all     []*site
	turn    atomic.Uint64
	home    *home
	metrics *metrics
}

func newInstances(o options, secrets [][]byte, counter exact.Counter) (b *instances, err error) {
	b = new(instances)
	if b.metrics, err = newMetrics(refusallog.Config{Logger: o.log, Now: o.now}); err != nil {
		return nil, err
	}
	o.metrics = b.metrics
	if b.home, err = newHome(o.instances); err != nil {
		return nil, err
	}
	for n := range o.instances {
		site, err := newSite(o, n+1, secrets, counter, b.home)
		if err != nil {
			return nil, err
		}
		b.all = append(b.all, site)
	}
	return b, nil
}

// ServeHTTP implements [http.Handler].
func (b *instances) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == metricsPath { // of all instances: they are one process
		b.metrics.ServeHTTP(w, r)
		return
	}
	i := (b.turn.Add(1) - 1) % uint64(len(b.all))
	w.Header().Set("Demo-Instance", strconv.FormatUint(i+1, 10))
	b.all[i].ServeHTTP(w, r)
}

// reload reads the policy file and its secrets again, and has every limiter of every instance go on
// with them: what was counted stays, and no request waits. If anything is wrong with either,
// nothing changes, and each problem is logged in a line of its own.
func (b *instances) reload(o options) {
	if o.policyFile == "" {
		o.log.Warn("nothing to reload: there is no -policy-file")
		return
	}
	var files []*policyfile.Set
	for _, site := range b.all {
		files = append(files, site.file)
	}
	if err := policyfile.Reload(files...); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			o.log.Error("not reloaded: nothing has changed", "problem", line)
		}
		return
	}
	o.log.Info("reloaded")
}
