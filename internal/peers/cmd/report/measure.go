// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// benchmarks is the package whose test binary is run.
const benchmarks = "github.com/tallystick/tallystick/internal/peers"

// measure builds the benchmarks once, runs each job in a new process and writes
// to out what they print. It stops at the first that fails: a benchmark fails
// only if it did not measure what it claims to.
func measure(ctx context.Context, jobs []job, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "peers-report-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "peers.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, benchmarks)
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", benchmarks, err, text)
	}
	start := time.Now()
	for i, j := range jobs {
		fmt.Fprintf(progress, "%s %3d%% %s\n", time.Since(start).Round(time.Second), 100*i/len(jobs), j.title)
		var stdout, stderr bytes.Buffer
		c := exec.CommandContext(ctx, binary, j.args...)
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w\n%s%s", j.title, err, stdout.Bytes(), stderr.Bytes())
		}
		if _, err := out.Write(stdout.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
