// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
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

// An opening holds all that is open for a measurement.
type opening struct {
	closers []func() error
	redis   string                                     // the address of a server
	members []string                                   // where peers hear each other, this process first
	now     func() time.Time                           // in tests; nil: the clock of the machine
	tell    func(context.Context, middleware.Decision) // in tests: called for every decision of ours
}

// closing has f called at the end; what is opened last is closed first.
func (o *opening) closing(f func() error) { o.closers = append(o.closers, f) }

func (o *opening) close() (err error) {
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f())
	}
	o.closers = nil
	return err
}

// redisClient has the library's defaults, as users of such limiters have it.
func (o *opening) redisClient() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: o.redis})
	o.closing(client.Close)
	return client
}

// redisFor starts a Redis for a row, if its name says that it asks one: on a loopback port, without persistence. It returns
// what reads how many nanoseconds of processors that server has used.
func (o *opening) redisFor(name string) (used func() map[string]float64) {
	if o.redis = ""; !strings.Contains(name, "redis") {
		return func() map[string]float64 { return make(map[string]float64) }
	}
	server := must(program.StartRedis(os.TempDir(), "--appendonly", "no"))
	o.closing(func() error { server.Kill(); return nil })
	o.redis = server.Addr
	client := o.redisClient()
	return func() map[string]float64 {
		info := must(client.InfoMap(context.Background(), "cpu").Result())["CPU"]
		return map[string]float64{"server": 1e9 * (must(strconv.ParseFloat(info["used_cpu_sys"], 64)) + must(strconv.ParseFloat(info["used_cpu_user"], 64)))}
	}
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

// processorTime returns what all threads of this process have spent on processors. Other
// programs on the machine disturb it far less than the time on the wall.
func processorTime() time.Duration {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// here returns the machine, the Go version and the date, in one line: a figure is worth nothing
// without them.
func here() string {
	processor := "unnamed processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux alone has one
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			processor = strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("%s, %d processors, %s %s/%s, %s", processor, runtime.NumCPU(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
}

// watch begins to watch what other programs do on the machine. What it returns tells which share
// of all processors they have used since; NaN where that cannot be told.
func watch() func() float64 {
	used, total := ticks()
	ours := processorTime()
	return func() float64 {
		usedNow, totalNow := ticks()
		own := float64(processorTime()-ours) / 1e7 // a tick is a hundredth of a second
		return max(0, (usedNow-used-own)/(totalNow-total))
	}
}

// ticks returns how long all processors were at work since the machine was started, or were taken
// away by others that share it, and how long they were at all: the first line of Linux's
// /proc/stat. NaN where there is none. What guests used is among the first.
func ticks() (used, total float64) {
	var user, nice, system, idle, iowait, irq, softirq, steal float64
	text, _ := os.ReadFile("/proc/stat")
	if _, err := fmt.Sscanf(string(text), "cpu %g %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return math.NaN(), math.NaN()
	}
	used = user + nice + system + irq + softirq + steal
	return used, used + idle + iowait
}
