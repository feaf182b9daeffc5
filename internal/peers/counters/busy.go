// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// busy does nothing for a while, and returns which share of all processors others kept
// busy meanwhile, and whether that can be told.
func busy(long time.Duration) (float64, bool) {
	used, total, ok := ticks(proc())
	time.Sleep(long)
	usedAfter, totalAfter, okAfter := ticks(proc())
	if !ok || !okAfter || totalAfter == total {
		return 0, false
	}
	return float64(usedAfter-used) / float64(totalAfter-total), true
}

func proc() string {
	text, _ := os.ReadFile("/proc/stat") // where there is none, nothing can be told
	return string(text)
}

// ticks reads the first line of Linux's /proc/stat: how long all processors were at
// work, or were taken away by others that share the machine, and how long they were at
// all, in ticks.
func ticks(stat string) (used, total uint64, ok bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	const idle, iowait = 4, 5
	for i, f := range fields[1:9] { // what guests used is among the first
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		total += n
		if i+1 != idle && i+1 != iowait {
			used += n
		}
	}
	return used, total, true
}
