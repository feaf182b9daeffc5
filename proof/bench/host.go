// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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
// /proc/stat. NaN where there is none.
func ticks() (used, total float64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return math.NaN(), math.NaN()
	}
	const idle, iowait = 4, 5
	for i, f := range fields[1:9] { // what guests used is among the first
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return math.NaN(), math.NaN()
		}
		total += n
		if i+1 != idle && i+1 != iowait {
			used += n
		}
	}
	return used, total
}
