// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"strconv"
	"strings"
)

// Ticks returns how long all processors were at work since the machine was started, or
// were taken away by others that share it, and how long they were at all, in ticks of a
// hundredth of a second, and whether that can be told.
func Ticks() (used, total uint64, ok bool) {
	text, _ := os.ReadFile("/proc/stat") // where there is none, nothing can be told
	return ticks(string(text))
}

// ticks reads the first line of Linux's /proc/stat.
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
