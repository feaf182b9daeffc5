// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/program"
)

// fleets are the rows: the limiter of a fleet's processes, whether clients show the tokens that they get, and whether
// one process is a fleet too.
var fleets = []struct {
	name, limiter string
	echoes, lone  bool
}{
	{none, "bare", false, true},
	{reference, reference, false, true},
	{ourName, ourName, true, true},
	{ourName + "-dropped", ourName, false, false},
	{ourName + "-peers", ourName + "-peers", false, false},
	{ourName + "-redis", ourName + "-redis", false, false},
	{redisRate, redisRate, false, true},
}

var fleetSizes = []int{1, 2, 3, 10}

// A load below saturation: each of the connections sends a request every so often, which is 2,000 in a second. What one client
// gets is counted with a quota and a window that is long enough that nothing of it comes back while a busy machine
// starts processes.
const (
	connections  = 16
	pace         = 8 * time.Millisecond
	dropperQuota = 100
	dropperYear  = 365 * 24 * time.Hour
)

// inFleets names the rows of all fleets of some sizes.
func inFleets(sizes ...int) (rows []string) {
	for _, size := range sizes {
		for _, f := range fleets {
			if size > 1 || f.lone {
				rows = append(rows, inFleet(f.name, size))
			}
		}
	}
	return rows
}

func inFleet(name string, size int) string { return name + " " + strconv.Itoa(size) }

// measureFleet measures all fleets of each size beside each other.
func measureFleet(ctx context.Context, s *settings, o *opening, long time.Duration) samples {
	all := make(samples)
	long /= time.Duration(len(fleetSizes))
	for _, size := range fleetSizes {
		var rows []row
		for _, kind := range fleets {
			name := inFleet(kind.name, size)
			if size == 1 && !kind.lone || !s.wants(name) {
				continue
			}
			fmt.Fprintf(s.progress, "fleet: %s\n", name)
			if kind.name != none {
				all.add(name, "admitted", admitted(ctx, kind.limiter, kind.echoes, size))
			}
			f := startFleet(ctx, o, kind.limiter, kind.echoes, size, plenty(1), connections)
			l := load{callers: connections, every: pace, long: max(50*time.Millisecond, long/time.Duration(s.groups*leastRounds*len(fleets))), used: f.used}
			l.ask = func(caller, _ int) error {
				f.clients[caller].run(1)
				return f.clients[caller].after(1)
			}
			rows = append(rows, row{name, l.slice})
		}
		all.join(s.play(ctx, fmt.Sprintf("fleet of %d", size), rows, long))
		check(o.close())
	}
	return all
}

// admitted returns how many requests of one client a fleet lets through within a window: the client asks all processes, in
// turn, for more than what all of them could let through.
func admitted(ctx context.Context, limiter string, echoes bool, size int) (n float64) {
	o := new(opening)
	a := startFleet(ctx, o, limiter, echoes, size, terms{dropperQuota, dropperYear, 1}, 1).clients[0]
	for range size * dropperQuota * 5 / 4 {
		a.run(1)
		a.wrong = ""
		if a.w.status == http.StatusOK {
			n++
		}
	}
	if check(o.close()); echoes {
		n++ // its first
	}
	return n
}

// A fleet is some processes, which serve, and clients that ask one after the other.
type fleet struct {
	ask     []func(list string) (used float64)
	server  *redisServer // nil: it needs none
	clients []*asker
}

// startFleet starts one, with clients at addresses of their own.
func startFleet(ctx context.Context, o *opening, limiter string, echoes bool, size int, each terms, clients int) *fleet {
	f, i := new(fleet), instance{Limiter: limiter, Quota: each.quota, Window: each.window}
	if strings.Contains(limiter, "redis") {
		o.startRedis()
		f.server, i.Redis = o.server, o.redis
	}
	var addresses, members []string
	for range size {
		i.Self = net.JoinHostPort("127.0.0.1", must(program.FreePort()))
		address, ask := i.start(ctx, o)
		addresses, members, f.ask = append(addresses, address), append(members, i.Self), append(f.ask, ask)
	}
	for _, ask := range f.ask {
		ask(strings.Join(members, " "))
	}
	for i := range clients {
		a := newAsker(http.MethodPost)
		for k := range addresses {
			a.handlers = append(a.handlers, dial(o, net.IPv4(127, 0, 0, byte(2+i)), addresses[(i+k)%size]))
		}
		if f.clients = append(f.clients, a); echoes {
			a.newestOf(byHeader)
		}
		a.either = true
	}
	return f
}

// dial returns what is served at an address as a handler: its client keeps one connection, from an address of its own.
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
		body, _ := io.ReadAll(answer.Body) // what is lacking is noticed
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body)
	})
}

// used returns the nanoseconds of processors that a fleet has used.
func (f *fleet) used() map[string]float64 {
	used := f.server.used()
	used["all"] = used["server"]
	for _, ask := range f.ask {
		used["all"] += ask("")
	}
	return used
}

// An instance is a process of a fleet: this program, with what it has to serve in its environment.
type instance struct {
	Limiter string
	Quota   int
	Window  time.Duration
	Redis   string // an address
	Self    string // where its peers hear it, if it has any
}

const instanceVariable = "TALLYSTICK_BENCH_INSTANCE"

// start starts the process, which serves at an address. To ask names its peers, or none, and returns the
// nanoseconds of processors that it has used so far.
func (i instance) start(ctx context.Context, o *opening) (address string, ask func(list string) (used float64)) {
	c := exec.CommandContext(ctx, must(os.Executable()))
	c.Env, c.Stderr = append(os.Environ(), instanceVariable+"="+string(must(json.Marshal(i)))), os.Stderr
	in, out := must(c.StdinPipe()), bufio.NewScanner(must(c.StdoutPipe()))
	check(c.Start())
	o.closing(func() error {
		in.Close()
		return c.Wait()
	})
	out.Scan()
	return out.Text(), func(list string) (used float64) {
		must(fmt.Fprintln(in, list))
		out.Scan()
		return must(strconv.ParseFloat(out.Text(), 64))
	}
}

// serveAsTold serves if this process is an instance, until its input ends.
func serveAsTold(in io.Reader, out io.Writer) (told bool, err error) {
	text := os.Getenv(instanceVariable)
	if text == "" {
		return false, nil
	}
	defer caught(&err)
	var i instance
	check(json.Unmarshal([]byte(text), &i))
	o := &opening{redis: i.Redis, self: i.Self}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { check(http.Serve(listener, limiters[i.Limiter](o, terms{i.Quota, i.Window, 1}))) }()
	fmt.Fprintln(out, listener.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); { // they ask
		if members := strings.Fields(lines.Text()); o.members != nil && slices.Contains(members, i.Self) {
			o.members(members)
		}
		fmt.Fprintln(out, int64(processorTime()))
	}
	return true, nil
}
