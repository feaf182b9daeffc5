// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// A crowd is a number of clients: for each an address of its own and, once issued, a token of its
// own. Both lie outside of the heap: the collector is paced by what a limiter keeps.
type crowd struct {
	size              int
	addresses, tokens []byte
	length            int // of each token
}

// Addresses have one length.
const (
	addressLen = len("10.100.100.100:40000")
	digits     = 150 // each of three octets is one of 100 to 249
)

func newCrowd(size int) *crowd {
	c := &crowd{size: size, addresses: offHeap(size * addressLen)}
	for i := range size {
		appendAddress(c.addresses[i*addressLen:i*addressLen], i)
	}
	return c
}

// appendAddress appends the address and port of client i, of at most 300 millions.
func appendAddress(b []byte, i int) []byte {
	return fmt.Appendf(b, "%d.%d.%d.%d:40000",
		10+i/(digits*digits*digits), 100+i/(digits*digits)%digits, 100+i/digits%digits, 100+i%digits)
}

func (c *crowd) address(i int) string { return view(c.addresses, i, addressLen) }
func (c *crowd) token(i int) string   { return view(c.tokens, i, c.length) }

// view returns the i-th part of b as a string. Nobody changes it again.
func view(b []byte, i, n int) string { return unsafe.String(&b[i*n], n) }

// visit has each client ask h once, and keeps the tokens that they get, all of one length. The order
// is another one than that in which they are going to come again, lest what a limiter keeps of them
// lies in memory in that order.
func (c *crowd) visit(h http.Handler) {
	a := newAsker(http.MethodPost, h)
	a.crowd, a.either = c, true
	step := max(1, int(float64(c.size)*0.618))
	for gcd(step, c.size) != 1 {
		step++
	}
	for j := range c.size {
		i := int(int64(j) * int64(step) % int64(c.size))
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

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// meet measures one limiter that meets a crowd, in a process of its own: by units, the nanoseconds
// of processors and of the wall, and the bytes of the heap.
func (e *errand) meet(o *opening) samples {
	all := make(samples)
	for _, w := range []struct {
		unit  string
		terms terms
		want  int
	}{
		{"one", plenty(1), http.StatusOK},
		{"crowd", plenty(e.Clients), http.StatusOK},
		{"refused", one(e.Clients), http.StatusTooManyRequests},
	} {
		if e.Limiter == "bare" && w.want != http.StatusOK {
			break
		}
		c, empty := newCrowd(w.terms.clients), heap()
		h := limiters[e.Limiter](o, w.terms)
		fresh := heap()
		c.visit(h)
		if w.unit == "crowd" {
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

// ask has a crowd ask for so long from so many goroutines, each for its part of the crowd, and
// returns the nanoseconds of processors and of the wall for each request.
func (c *crowd) ask(h http.Handler, want, cores int, long time.Duration) (cpu, wall float64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	const batch = 1000
	askers, sent := make([]*asker, cores), make([]int, cores)
	var group sync.WaitGroup
	began, used := time.Now(), processorTime()
	for i := range askers {
		a := newAsker(http.MethodPost, h)
		a.want, a.either, a.crowd = want, true, c
		a.begin, a.end = i*c.size/cores, max((i+1)*c.size/cores, 1)
		a.next = a.begin
		if c.tokens != nil {
			a.show(byHeader, []string{""})
			a.either, a.channel = want != http.StatusOK, byHeader
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
