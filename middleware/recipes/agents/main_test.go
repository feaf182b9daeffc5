// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

// A tree has a budget of ten: three searches at most, at 1 each, and three mails at 4.
func serve(t *testing.T, change func(*middleware.Config)) string {
	t.Helper()
	cfg := loopback.Config("", 10)
	cfg.Limits[0].Name, cfg.Limits[0].Window = "budget", 24*time.Hour
	change(&cfg)
	h, err := budget(cfg, loopback.Secret, map[string]tool{
		"search": {quota: 3, price: 1, run: say("a page")},
		"mail":   {quota: 3, price: 4, run: say("sent")},
	})
	require.NoError(t, err)
	return loopback.Serve(t, h)
}

func call(t *testing.T, url, tool, tree string) loopback.Answer {
	t.Helper()
	return loopback.Send(t, http.MethodPost, url+"/tools/"+tool, "", "Authorization", "Bearer "+tree)
}

// An agent and its children have the same credential. A tool that refuses takes nothing from the budget.
func TestATreeHasABudget(t *testing.T) {
	url := serve(t, func(*middleware.Config) {})
	tree, another := newTree(loopback.Secret), newTree(loopback.Secret)
	for _, step := range []struct {
		tool, tree string
		status     int
		refuses    string // the limit that the problem names
	}{
		{"search", tree, 200, ""},
		{"search", tree, 200, ""},
		{"search", tree, 200, ""},
		{"search", tree, 429, "calls"}, // three searches
		{"search", tree, 429, "calls"},
		{"mail", tree, 200, ""},
		{"mail", tree, 429, "budget"}, // 3 + 4 of 10 are used
		{"mail", tree, 429, "budget"},
		{"search", another, 200, ""},
		{"mail", another, 200, ""},
		{"mail", another, 200, ""},
		{"search", another, 200, ""}, // 10 of 10
		{"search", another, 429, "budget"},
		{"prose", another, 404, ""},
	} {
		a := call(t, url, step.tool, step.tree)
		require.Equal(t, step.status, a.Status, step)
		require.Contains(t, a.Body, step.refuses, step)
	}
}

// Only the program that starts agents makes trees.
func TestACredentialIsSigned(t *testing.T) {
	url := serve(t, func(*middleware.Config) {})
	tree := newTree(loopback.Secret)
	for name, forged := range map[string]string{
		"none":                 "",
		"a name":               "another",
		"another name":         "x" + tree,
		"no signature":         strings.Split(tree, ".")[0] + ".",
		"another secret":       newTree([]byte(strings.Repeat("t", 32))),
		"what is no signature": tree + "!",
	} {
		a := call(t, url, "search", forged)
		require.Equal(t, http.StatusUnauthorized, a.Status, name)
	}
}

// By a counter two instances share the budget.
func TestABudgetOfAllInstances(t *testing.T) {
	exact := &middleware.Exact{Counter: memory.New(0, func() time.Time { return loopback.Start }), Outage: middleware.FailClosed}
	with := func(cfg *middleware.Config) { cfg.Exact = exact }
	instances := []string{serve(t, with), serve(t, with)}
	tree, passed := newTree(loopback.Secret), 0
	for n := range 12 {
		if call(t, instances[n%2], "mail", tree).Status == http.StatusOK {
			passed++
		}
	}
	require.Equal(t, 2, passed)
}
