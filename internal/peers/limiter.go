// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"math"
	"net"
	"net/http"
	"time"
)

// A Limiter is one of those that are compared.
type Limiter struct {
	Name    string
	Request Request // what its clients send

	// Ours says that this is a way of using the middleware of this repository.
	Ours bool

	// Remote says that every decision takes a round trip to another process.
	Remote bool

	// Unlimited says that it limits nothing: the handler alone, as a scale.
	Unlimited bool

	// New returns an instance around next.
	New func(next http.Handler, t Terms) (*Instance, error)
}

// Terms are what all limiters of one benchmark are told.
type Terms struct {
	Quota   int // requests of one client in Window, all of which may come at once
	Window  time.Duration
	Clients int // how many there are going to be, for those who want to know
}

// perSecond is the rate of the limiters that know no window.
func (t Terms) perSecond() float64 { return float64(t.Quota) / t.Window.Seconds() }

// An Instance is a limiter at work.
type Instance struct {
	http.Handler

	// ServerBytes returns the memory that another process uses for it. It is
	// nil if there is none.
	ServerBytes func() (int64, error)

	close func() error
}

// Close ends what the instance has started.
func (i *Instance) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

// Limiters returns all that are compared, ours first.
func Limiters() []Limiter {
	get := Request{Method: http.MethodGet}
	return append(ours(),
		Limiter{Name: "httprate", Request: get, New: newHTTPRate},
		Limiter{Name: "ulule", Request: get, New: newUlule},
		Limiter{Name: "tollbooth", Request: get, New: newTollbooth},
		Limiter{Name: "go-limiter", Request: get, New: newGoLimiter},
		Limiter{Name: "throttled", Request: get, New: newThrottled},
		Limiter{Name: "x-time-map", Request: get, New: newTimeMap},
		Limiter{Name: "redis_rate", Request: get, Remote: true, New: newRedisRate},
		Limiter{Name: "bare", Request: get, Unlimited: true, New: func(next http.Handler, _ Terms) (*Instance, error) {
			return &Instance{Handler: next}, nil
		}},
	)
}

// Plenty are terms under which every request of a benchmark is allowed.
func Plenty(clients int) Terms {
	return Terms{Quota: 1_000_000_000, Window: time.Hour, Clients: clients}
}

// One are terms under which the second request of a client is refused, and all
// that follow while a benchmark lasts.
func One(clients int) Terms { return Terms{Quota: 1, Window: time.Hour, Clients: clients} }

// peer is the key of every limiter that can be told how to find it.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// roomy is how many tallies a memory is made for that must remember all of the
// clients: at half of its nominal load it has room for each of a million.
func roomy(clients int) int {
	const byDefault = 1 << 16
	return max(byDefault, 1<<int(math.Ceil(math.Log2(float64(2*clients)))))
}
