// SPDX-License-Identifier: Apache-2.0

// Package span writes a time as people write it: 28 days, 1 h 30 min, 250 ms.
package span

import (
	"strconv"
	"strings"
	"time"
)

// Text returns d in its units, all of them, so that no two times look the same. From two days on it counts days: "24 h" and
// "36 h" say more than a day and a half.
func Text(d time.Duration) string {
	switch {
	case d == 0:
		return "0 s"
	case d < 0:
		return "-" + Text(-max(d, -1<<63+1))
	case d < time.Microsecond:
		return part(d, time.Nanosecond, " ns")
	case d < time.Millisecond:
		return part(d, time.Microsecond, " µs")
	case d < time.Second:
		return part(d, time.Millisecond, " ms")
	}
	var parts []string
	if days := d / (24 * time.Hour); days > 1 {
		parts = append(parts, strconv.Itoa(int(days))+" days")
		d -= days * 24 * time.Hour
	}
	for _, unit := range [...]struct {
		of   time.Duration
		name string
	}{{time.Hour, " h"}, {time.Minute, " min"}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, strconv.Itoa(int(n))+unit.name)
			d -= n * unit.of
		}
	}
	if d > 0 {
		parts = append(parts, part(d, time.Second, " s"))
	}
	return strings.Join(parts, " ")
}

// part writes d in a unit, with as many decimals as it has.
func part(d, unit time.Duration, name string) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + name
}
