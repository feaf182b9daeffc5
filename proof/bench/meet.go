// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// childVariable holds what a process that this one has started is to do, as JSON.
const childVariable = "TALLYSTICK_BENCH_CHILD"

// Such a process does an errand: it meets a population, or serves as an instance of a fleet.
type errand struct {
	Limiter string
	Clients int           // 0: serve
	For     time.Duration // each of the things that it measures
	Quota   int
	Window  time.Duration
	Redis   string // an address
	Ring    string // where others ask it, if it is in a ring
}

// child returns this program on an errand.
func (e errand) child(ctx context.Context) *exec.Cmd {
	c := exec.CommandContext(ctx, must(os.Executable()))
	c.Env = append(os.Environ(), childVariable+"="+string(must(json.Marshal(e))))
	c.Stderr = os.Stderr
	return c
}

// do does an errand.
func (e *errand) do(in io.Reader, out io.Writer) (err error) {
	o := &opening{redis: e.Redis, self: e.Ring}
	defer caught(&err)
	if e.Clients > 0 {
		return json.NewEncoder(out).Encode(e.meet(o))
	}
	h := limiters[e.Limiter](o, terms{e.Quota, e.Window, 1})
	fmt.Fprintln(out, overHTTP(o, h).conn.RemoteAddr())
	for lines := bufio.NewScanner(in); lines.Scan(); { // they ask
		if o.ring != nil {
			o.ring(strings.Fields(lines.Text()))
		}
		fmt.Fprintln(out, int64(processorTime()))
	}
	return nil
}

// meeters are the limiters that meet many clients, each in a process of its own: what one keeps of a
// million makes no collection of another dearer.
var meeters = []string{ourName, lowest, reference, "throttled", "bare", "ulule", "tollbooth", "go-limiter", "x-time-map", "redis_rate"}

// measurePopulation has each limiter meet its population, in turn.
func measurePopulation(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples {
	all := make(samples)
	for g := range s.groups {
		for i := range meeters {
			e := errand{Limiter: meeters[(i+g)%len(meeters)], Clients: s.clients, For: long / time.Duration(s.groups*len(meeters)*5)}
			if !s.wants(e.Limiter) {
				continue
			}
			fmt.Fprintf(progress, "population: group %d of %d, %s\n", g+1, s.groups, e.Limiter)
			if e.Limiter == redisRate {
				o.startRedis()
				e.Redis, e.Clients = o.redis, min(e.Clients, 50_000) // a million take a minute
			}
			others := watch()
			time.Sleep(rest)
			all.add("", "others", others())
			var met samples
			check(json.Unmarshal(must(e.child(ctx).Output()), &met))
			all.join(met)
			check(o.close())
		}
	}
	return all
}

// onErrand does the errand that the environment holds, if there is one.
func onErrand(in io.Reader, out io.Writer) (on bool, err error) {
	text := os.Getenv(childVariable)
	if text == "" {
		return false, nil
	}
	defer caught(&err)
	var e errand
	check(json.Unmarshal([]byte(text), &e))
	return true, e.do(in, out)
}

// visit has each client ask h once, and keeps the tokens that they get, all of one length. They
// come in another order than later, lest what a limiter keeps of them lies in memory in that order.
func (c *population) visit(h http.Handler) {
	a := newAsker(http.MethodPost, h)
	a.population, a.either = c, true
	for _, i := range rand.Perm(c.size) {
		a.next = i
		a.run(1)
		check(a.after(1))
		token := a.w.header.Get(byHeader)
		if token != "" && c.tokens == nil {
			c.tokens, c.length = offHeap(c.size*len(token)), len(token)
		}
		if len(token) != c.length {
			check(fmt.Errorf("client %d has a token of %d bytes, others of %d", i, len(token), c.length))
		}
		copy(c.tokens[i*c.length:], token)
	}
}

// meet measures one limiter that meets a population, in a process of its own: by units, the nanoseconds
// of processors and of the wall, and the bytes of the heap.
func (e *errand) meet(o *opening) samples {
	all := make(samples)
	for _, w := range []struct {
		unit  string
		terms terms
		want  int
	}{
		{"one", plenty(1), http.StatusOK},
		{"population", plenty(e.Clients), http.StatusOK},
		{"refused", one(e.Clients), http.StatusTooManyRequests},
	} {
		if e.Limiter == "bare" && w.want != http.StatusOK {
			break
		}
		c, empty := newPopulation(w.terms.clients), heap()
		h := limiters[e.Limiter](o, w.terms)
		fresh := heap()
		c.visit(h)
		if w.unit == "population" {
			all.add(e.Limiter, "fixed heap", fresh-empty)
			all.add(e.Limiter, "heap", (heap()-fresh)/float64(c.size))
		}
		for unit, cores := range map[string]int{w.unit: 1, w.unit + ", all": runtime.NumCPU()} {
			cpu, wall := c.ask(h, w.want, cores, e.For)
			all.add(e.Limiter, unit, cpu)
			all.add(e.Limiter, unit+", wall", wall)
		}
	}
	return all
}

// heap returns the bytes of the heap that are in use. The collector runs three times, because pools
// give up what they hold only at the second.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// ask has a population ask for so long from so many goroutines, each for its part of the population, and
// returns the nanoseconds of processors and of the wall for each request.
func (c *population) ask(h http.Handler, want, cores int, long time.Duration) (cpu, wall float64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	const batch = 1000
	askers, sent := make([]*asker, cores), make([]int, cores)
	var group sync.WaitGroup
	began, used := time.Now(), processorTime()
	for i := range askers {
		a := newAsker(http.MethodPost, h)
		a.want, a.either, a.population = want, true, c
		a.begin, a.end = i*c.size/cores, max((i+1)*c.size/cores, 1)
		a.next = a.begin
		if c.tokens != nil {
			a.show(byHeader, []string{""})
			if a.either = false; want == http.StatusOK { // a client that is refused and has shown its token gets none
				a.channel = byHeader
			}
		}
		askers[i] = a
		group.Go(func() {
			n := 0
			for ; time.Since(began) < long || n == 0; n += batch {
				a.run(batch)
			}
			sent[i] = n
		})
	}
	group.Wait()
	cpu, wall = float64(processorTime()-used), float64(time.Since(began))
	n := 0
	for i, a := range askers {
		n += sent[i]
		check(a.after(batch))
	}
	return cpu / float64(n), wall / float64(n)
}
