// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/program"
)

// An opening holds everything that is open for a measurement.
type opening struct {
	closers []func() error
	redis   string                                     // the address of the row's server
	members []string                                   // addresses where peers hear each other, this process first
	now     func() time.Time                           // in tests; nil: the clock of the machine
	tell    func(context.Context, middleware.Decision) // in tests: called for every decision of ours
}

// closing calls f at the end, the last f first.
func (o *opening) closing(f func() error) { o.closers = append(o.closers, f) }

func (o *opening) close() (err error) {
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f())
	}
	o.closers = nil
	return err
}

// redisClient returns a client with the library's defaults, as its users have it.
func (o *opening) redisClient() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: o.redis})
	o.closing(client.Close)
	return client
}

// redisFor starts a Redis without persistence for a row whose name says that it needs one. It returns a function that reads
// the processors' nanoseconds that the server has used.
func (o *opening) redisFor(name string) (used func() map[string]float64) {
	if o.redis = ""; !strings.Contains(name, "redis") {
		return func() map[string]float64 { return make(map[string]float64) }
	}
	server := must(program.StartRedis(os.TempDir()))
	o.closing(func() error { return server.End(time.Minute) })
	o.redis = server.Addr()
	client := o.redisClient()
	return func() map[string]float64 {
		info := must(client.InfoMap(context.Background(), "cpu").Result())["CPU"]
		return map[string]float64{"server": 1e9 * (must(strconv.ParseFloat(info["used_cpu_sys"], 64)) + must(strconv.ParseFloat(info["used_cpu_user"], 64)))}
	}
}

// The names of the rows with which others are compared, and the beginning of the names of our rows.
const (
	reference = "httprate"
	lowest    = "floor"
	ourName   = "tallystick"
	redisRate = "redis_rate"
	bare      = "bare" // the handler alone
	none      = "none" // bare, in a fleet
)

// Terms are the same for all limiters of a row.
type terms struct {
	quota   int // requests of one client in a window; all may come at once
	window  time.Duration
	clients int // their number, for a limiter that needs it in advance
}

// Under plenty every request is allowed.
func plenty(clients int) terms { return terms{1_000_000_000, time.Hour, clients} }

// A builder makes a limiter around the served handler.
type builder func(*opening, terms) http.Handler

// secret is the same for all instances, which verify each other's tokens.
func secret() []byte { return bytes.Repeat([]byte("0123456789abcdef"), 2) }

// roomy returns the size of a memory that must remember all clients: at half of its load each of a million has room.
func roomy(clients int) int {
	const byDefault = 1 << 16
	return max(byDefault, 1<<int(math.Ceil(math.Log2(float64(2*clients)))))
}

// A failure ends the run: a run with a mistake has no figures.
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

// failing returns the failure of do as an error.
func failing(do func()) (err error) {
	defer caught(&err)
	do()
	return nil
}

// caught turns a failure into an error: defer caught(&err).
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(p.error, *err)
	default:
		panic(p)
	}
}

// processorTime returns the time that all threads of this process have spent on processors. Other programs on the machine
// disturb it far less than the time on the wall.
func processorTime() time.Duration {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// here returns the machine, the Go version and the date in one line. Without them a figure is worth nothing.
func here() string {
	processor := "unnamed processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // only Linux has this file
	if name := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); name != nil {
		processor = string(name[1])
	}
	return fmt.Sprintf("%s, %d processors, %s %s/%s, %s", processor, runtime.NumCPU(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
}

// watch begins to watch the other programs on the machine. It returns a function for the share of all processors that they
// have used since, or NaN on a system that does not tell.
func watch() func() float64 {
	used, total := ticks()
	ours := processorTime()
	return func() float64 {
		usedNow, totalNow := ticks()
		own := float64(processorTime()-ours) / 1e7 // a tick is a hundredth of a second
		return max(0, (usedNow-used-own)/(totalNow-total))
	}
}

// ticks returns the time that all processors have worked since the machine was started, with the time that a hypervisor took
// away, and the total time: from the first line of Linux's /proc/stat, or NaN without it. The time of guests is part of user.
func ticks() (used, total float64) {
	var user, nice, system, idle, iowait, irq, softirq, steal float64
	text, _ := os.ReadFile("/proc/stat")
	if _, err := fmt.Sscanf(string(text), "cpu %g %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return math.NaN(), math.NaN()
	}
	used = user + nice + system + irq + softirq + steal
	return used, used + idle + iowait
}
