// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// tellConfigured tells in one line what a policy runs with, so that somebody can see whether all instances
// run with the same, and who is believed. cfg has its defaults, and none of its secrets is told.
func (e *engine) tellConfigured(now time.Time, cfg *Config) {
	if !e.report.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	var limits []string
	for _, l := range cfg.Limits {
		limits = append(limits, fmt.Sprintf("%d in %v", l.Quota, l.Window))
	}
	memory := "none"
	if e.memory != nil {
		memory = fmt.Sprintf("%.1f MiB for %d clients", float64(e.memory.Size())/(1<<20), cfg.MaxClients)
	}
	args := []any{"kids", strings.Join(e.codec.KeyIDs(), ","), "limits", strings.Join(limits, ", "), "tiers", len(cfg.Tiers),
		"instances", cfg.Instances, "memory", memory, "identity", nameOf(e.identity)}
	if c := e.challenge; c != nil {
		args = append(args, "challenge", [...]string{"WhenExhausted", "WhenBusy", "Newcomers", "EveryRequest"}[c.mode], "work", c.work)
	}
	if e.exact != nil {
		args = append(args, "outage", map[Outage]string{FailOpen: "FailOpen", FailClosed: "FailClosed"}[e.exact.Outage])
	}
	if e.shadow {
		args = append(args, "shadow", true)
	}
	e.report.tell(slog.LevelInfo, configured, "configured", args...)
}

// nameOf returns the name of an identity function as its package has it. What believes a field of
// proxies is a function inside of one: its own name, and not that of the field.
func nameOf(identity IdentityFunc) string {
	f := runtime.FuncForPC(reflect.ValueOf(identity).Pointer())
	if f == nil {
		return "unknown"
	}
	name, _, _ := strings.Cut(path.Base(f.Name()), ".func")
	switch { // whatever they were inlined in
	case strings.HasSuffix(name, ".believing"):
		return "a field of trusted proxies"
	case strings.HasSuffix(name, ".ValidatedKey"):
		return "middleware.ValidatedKey"
	}
	return name
}
