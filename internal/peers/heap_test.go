// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tenEach are terms under which a client is remembered for longer than it takes
// to ask for all of them.
func tenEach(clients int) Terms { return Terms{Quota: 10, Window: time.Hour, Clients: clients} }

// BenchmarkHeap is the memory that a limiter takes when it is new, and what each
// client adds to it. Every request comes with an address string of its own, as
// from net/http, and the harness keeps none: what a limiter keeps of it counts.
// Run it with -benchtime=1x.
func BenchmarkHeap(b *testing.B) {
	for _, l := range Limiters() {
		b.Run("limiter="+l.Name, func(b *testing.B) {
			for _, n := range sizes(b, *heapSizes) {
				b.Run("clients="+strconv.Itoa(n), func(b *testing.B) { benchmarkHeap(b, l, n) })
			}
		})
	}
}

func benchmarkHeap(b *testing.B, l Limiter, n int) {
	none := live()
	instance, err := l.New(Served(), tenEach(n))
	need(b, err)
	fresh := live()
	server := serverBytes(b, instance)

	seats := []*visitor{newVisitor(instance, l)}
	if l.Remote {
		seats = nil
		for range 16 { // or the round trips alone take a minute
			seats = append(seats, newVisitor(instance, l))
		}
	}
	ended := make(chan error)
	for k, v := range seats {
		go func() {
			var err error
			for i := k; i < n && err == nil; i += len(seats) {
				err = v.visit(i)
			}
			ended <- err
		}()
	}
	for range seats {
		require.NoError(b, <-ended)
	}
	seats = nil
	full := live()
	b.ReportMetric(0, "ns/op") // there is no operation
	b.ReportMetric(float64(fresh-none), "fixed-B")
	b.ReportMetric(float64(full-fresh)/float64(n), "B/client")
	if instance.ServerBytes != nil {
		b.ReportMetric(float64(serverBytes(b, instance)-server)/float64(n), "server-B/client")
	}
	runtime.KeepAlive(instance)
	require.NoError(b, instance.Close())
}

// live returns the bytes of the heap that are in use. The collector runs three
// times, because pools give up what they hold only at the second.
func live() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func serverBytes(tb testing.TB, i *Instance) int64 {
	if i.ServerBytes == nil {
		return 0
	}
	n, err := i.ServerBytes()
	require.NoError(tb, err)
	return n
}

// A visitor is one client after the other, each for the first time.
type visitor struct {
	handler http.Handler
	shows   Shows
	request *http.Request
	w       recorder
}

func newVisitor(h http.Handler, l Limiter) *visitor {
	r, err := http.NewRequest(l.Request.Method, "http://peers.test/contact", http.NoBody)
	if err != nil {
		panic(err) // the method is one of ours
	}
	return &visitor{handler: h, shows: l.Request.Shows, request: r, w: newRecorder()}
}

// visit sends the first request of client i and, if its clients show tokens, a
// second one with the token that the first was answered with.
func (v *visitor) visit(i int) error {
	v.request.RemoteAddr = string(appendAddress(nil, i))
	clear(v.request.Header)
	if err := v.send(i); err != nil {
		return err
	}
	switch v.shows {
	case InHeader:
		v.request.Header[tokenHeader] = []string{v.w.header.Get(tokenHeader)}
	case InCookie:
		cookie, _, _ := strings.Cut(v.w.header.Get(setCookie), ";")
		v.request.Header[cookieHeader] = []string{cookie}
	default:
		return nil
	}
	return v.send(i)
}

func (v *visitor) send(i int) error {
	v.w.reset()
	v.handler.ServeHTTP(&v.w, v.request)
	if v.w.status != http.StatusOK || v.w.body != len(body) {
		return errors.New("client " + strconv.Itoa(i) + " was answered " + strconv.Itoa(v.w.status))
	}
	return nil
}
