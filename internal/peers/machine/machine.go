// SPDX-License-Identifier: Apache-2.0

// Package machine says where and when something was measured: a figure without
// that is worth nothing.
package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Describe returns the machine and the date, in one line.
func Describe(now time.Time) string { return Here() + ", " + now.Format(time.DateOnly) }

// Here returns the processor and the Go version, in one line.
func Here() string {
	return fmt.Sprintf("%s, %d processors, %s %s/%s",
		processor(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// processor returns the name of the processor, as far as Linux tells.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unnamed processor"
	}
	defer f.Close()
	return modelName(f)
}

func modelName(r io.Reader) string {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unnamed processor"
}
