// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/proof/program"
)

// A kind of fleet is a row: the limiter of its processes, and whether clients show their tokens.
type kind struct {
	name, limiter string
	echoes        bool
	least, quota  int  // number of processes; requests in a second, or 0 for plenty
	bursts, waits bool // a client has four connections, which send at once; and all to one process
	zipf          bool // the requests are from many clients, by Zipf's law
}

var fleets = []kind{
	{name: none, limiter: bare, least: 1},
	{name: reference, limiter: reference, least: 1},
	{name: ourName, limiter: ourName, echoes: true, least: 1},
	{name: ourName + "-dropped", limiter: ourName, least: 2},
	{name: ourName + "-peers", limiter: ourName + "-peers", least: 2, quota: 250},
	{name: ourName + "-redis", limiter: ourName + "-redis", least: 2},
	{name: redisRate, limiter: redisRate, least: 1},
	{name: none + "-zipf", limiter: bare, least: 2, zipf: true},
	{name: ourName + "-peers-zipf", limiter: ourName + "-peers", least: 2, zipf: true},
	{name: redisRate + "-zipf", limiter: redisRate, least: 2, zipf: true},
	{name: ourName + "-peers-bursts", limiter: ourName + "-peers", least: 2, quota: 150, bursts: true},
	{name: redisRate + "-bursts", limiter: redisRate, least: 2, quota: 150, bursts: true},
	{name: ourName + "-peers-waits", limiter: ourName + "-peers", least: 2, quota: 150, bursts: true, waits: true},
	{name: redisRate + "-waits", limiter: redisRate, least: 2, quota: 150, bursts: true, waits: true},
}

var fleetSizes = []int{1, 2, 3, 10}

// A load below saturation: all connections together send 2,000 requests in a second. The count of a client's admitted requests
// has a quota of its own, and a window long enough that no quota comes back while a busy machine starts processes.
const (
	connections  = 16
	burst, slow  = 4, 6 // a burst has 4 requests; 6 times the connections send one, each 6 times as seldom
	pace         = 8 * time.Millisecond
	dropperQuota = 100
	dropperYear  = 365 * 24 * time.Hour
	zipfQuota    = 60
)

// poses is the field by which many clients share a connection.
const poses = "Client"

// drawn returns clients in the order in which one connection sends their requests: with exponent 1.1, the busiest sends one of sixty.
func drawn(seed uint64) []client {
	all := make([]client, 1<<13)
	law := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), 1.1, 10, 200_000)
	for i := range all {
		all[i].lines = []string{address(int(law.Uint64()))}
	}
	return all
}

// inFleets names the rows of all fleets of the given sizes.
func inFleets(sizes ...int) (rows []string) {
	for _, size := range sizes {
		for _, k := range fleets {
			if size >= k.least {
				rows = append(rows, k.of(size))
			}
		}
	}
	return rows
}

func (k kind) of(size int) string { return k.name + " " + strconv.Itoa(size) }

// measureFleet measures the fleets of each size in turn. Fleets whose clients come by Zipf's law take turns among themselves: each asks so often
// that its busiest clients reach their limits, as they would without turns.
func measureFleet(ctx context.Context, s *settings, o *opening, all samples, long time.Duration) {
	long /= time.Duration(len(fleetSizes))
	for _, size := range fleetSizes {
		for _, zipf := range []bool{false, true} {
			var rows []row
			kinds := slices.DeleteFunc(slices.Clone(fleets), func(k kind) bool { return k.zipf != zipf || size < k.least })
			if len(kinds) == 0 {
				continue
			}
			long := long * time.Duration(len(kinds)) / time.Duration(len(fleets))
			for _, k := range kinds {
				if name := k.of(size); s.wants(name) {
					fmt.Fprintf(s.progress, "fleet: %s\n", name)
					if k.limiter != bare {
						all.add(name, "admitted", k.admits(ctx, size))
					}
					rows = append(rows, row{name, k.load(ctx, s, o, size, long/time.Duration(s.groups*leastRounds*len(kinds))).slice})
				}
			}
			s.play(ctx, fmt.Sprintf("fleet of %d", size), all, rows, long)
			for _, r := range rows {
				for g, used := range all[r.name]["all"] {
					all.add(r.name, "above", used-all[kinds[0].of(size)]["all"][g])
				}
			}
			check(o.close())
		}
	}
}

// load starts a fleet, and returns the load that is measured.
func (k kind) load(ctx context.Context, s *settings, o *opening, size int, long time.Duration) *load {
	l := &load{callers: connections, every: pace, long: max(50*time.Millisecond, long)}
	if k.bursts {
		l.callers, l.every, l.together = slow*connections, slow*pace, burst
	}
	each := plenty(1)
	switch {
	case k.zipf:
		each = terms{zipfQuota, time.Minute, 1}
	case k.quota > 0:
		each = terms{k.quota, time.Second, 1}
	}
	clients, used := k.start(ctx, o, size, each, l.callers)
	for i, a := range clients {
		if k.zipf {
			a.field, a.clients, a.bears = poses, drawn(uint64(i)), []int{http.StatusTooManyRequests}
		}
		if s.part > 1 && k.limiter == ourName+"-peers" { // a trial, on a machine that may be too busy for peers to answer in time
			a.bears = append(a.bears, http.StatusServiceUnavailable)
		}
	}
	l.used, l.ask = used, func(caller, _ int) error { return failing(func() { clients[caller].ask(1) }) }
	return l
}

// admits returns the number of requests of one client that a fleet admits within a window. The client asks all processes in
// turn, and sends more requests than all of them together could admit.
func (k kind) admits(ctx context.Context, size int) (n float64) {
	o := new(opening)
	clients, _ := k.start(ctx, o, size, terms{dropperQuota, dropperYear, 1}, 1)
	a := clients[0]
	if k.echoes {
		n++ // the client asked once at the start
	}
	for range size * dropperQuota * 5 / 4 {
		a.run(1)
		if a.w.status == http.StatusOK {
			n++
		}
	}
	check(o.close())
	return n
}

// start starts the processes of a fleet, and their clients, each with its own address. It returns the clients, and a function
// that reads the processors' nanoseconds that the fleet has used.
func (k kind) start(ctx context.Context, o *opening, size int, each terms, connections int) (clients []*asker, used func() map[string]float64) {
	server := o.redisFor(k.limiter)
	instances, members := make([]func() string, size), make([]string, size)
	for i := range members {
		members[i] = net.JoinHostPort("127.0.0.1", must(program.FreePort()))
	}
	for i := range instances {
		instances[i] = instance{k.limiter, each.quota, each.window, o.redis, slices.Concat(members[i:], members[:i])}.start(ctx, o)
	}
	addresses := make([]string, size)
	for i, ask := range instances { // all have been started, so peers can hear each other
		addresses[i] = ask()
	}
	for i := range connections {
		a, from, to := newAsker(http.MethodPost), i, size
		if k.bursts {
			from /= burst
		}
		if k.waits {
			i, to = from, 1
		}
		for n := range to {
			a.handlers = append(a.handlers, dial(o, net.IPv4(127, 0, 0, byte(2+from)), addresses[(i+n)%size]))
		}
		if clients = append(clients, a); k.echoes {
			a.newest(byHeader)
		}
		a.brings = byAny
	}
	return clients, func() map[string]float64 {
		used := server()
		used["all"] = used["server"]
		for _, ask := range instances {
			used["all"] += must(strconv.ParseFloat(ask(), 64))
		}
		return used
	}
}

// dial returns a handler that sends requests to a server on one kept connection, from a given address.
func dial(o *opening, from net.IP, address string) http.Handler {
	t := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext, DisableCompression: true}
	o.closing(func() error { t.CloseIdleConnections(); return nil })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Clone(r.Context())
		asked.URL.Host, asked.RequestURI = address, ""
		answer, err := t.RoundTrip(asked)
		if err != nil {
			w.Header().Set("Error", err.Error())
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body) // the asker notices a missing body
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body)
	})
}

// An instance is a process of a fleet: this program, with the instance in its environment.
type instance struct {
	Limiter string
	Quota   int
	Window  time.Duration
	Redis   string   // an address
	Members []string // addresses where peers hear each other, this process first
}

const instanceVariable = "TALLYSTICK_BENCH_INSTANCE"

// start starts the process. The first answer to ask is the address where it serves; all later answers are the processors'
// nanoseconds that it has used.
func (i instance) start(ctx context.Context, o *opening) (ask func() string) {
	c := exec.CommandContext(ctx, must(os.Executable()))
	c.Env, c.Stderr = append(os.Environ(), instanceVariable+"="+string(must(json.Marshal(i)))), os.Stderr
	in, out := must(c.StdinPipe()), bufio.NewScanner(must(c.StdoutPipe()))
	check(c.Start())
	o.closing(func() error {
		in.Close()
		return c.Wait()
	})
	return func() string {
		must(fmt.Fprintln(in))
		out.Scan()
		return out.Text()
	}
}

// serveAsTold serves until its input ends, if this process is an instance.
func serveAsTold(in io.Reader, out io.Writer) (told bool, err error) {
	text := os.Getenv(instanceVariable)
	if text == "" {
		return false, nil
	}
	defer caught(&err)
	var i instance
	check(json.Unmarshal([]byte(text), &i))
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	h := limiters[i.Limiter](&opening{redis: i.Redis, members: i.Members}, terms{i.Quota, i.Window, 1})
	s := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // real servers have timers
		r.RemoteAddr = cmp.Or(r.Header.Get(poses), r.RemoteAddr)
		h.ServeHTTP(w, r)
	})}
	go func() { check(s.Serve(listener)) }()
	answer := listener.Addr().String()
	for asked := bufio.NewScanner(in); asked.Scan(); answer = "" {
		fmt.Fprintln(out, cmp.Or(answer, strconv.Itoa(int(processorTime()))))
	}
	return true, nil
}
