// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// loginProgram is a log-in on two instances, which share a secret: what the page prints, between
// what it takes for granted and requests that go to each in turn.
const loginProgram = `package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

var secret = []byte(os.Getenv("TALLYSTICK_SECRET"))

func passwordOf(name string) string { return "swordfish of " + name }

func noon() time.Time { return time.Unix(1_800_000_000, 0) }

func instance() http.Handler {
	mux := http.NewServeMux()
	BY_ADDRESS
	BY_NAME
	return mux
}

func main() {
	instances := [2]http.Handler{instance(), instance()}
	turn := 0
	try := func(n int, name, password, address string) {
		var statuses []any
		for range n {
			r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"name": {name}, "password": {password}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.RemoteAddr = address + ":4711"
			w := httptest.NewRecorder()
			instances[turn%2].ServeHTTP(w, r)
			if turn++; w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
				log.Fatal("a refusal without Retry-After")
			}
			statuses = append(statuses, w.Code)
		}
		fmt.Println(statuses...)
	}
	try(12, "Ann", "swordfish of ann", "192.0.2.1")
	try(12, "ann", "123456", "192.0.2.1")
	try(2, "ANN", "swordfish of ann", "192.0.2.2")
	try(2, "bob", "swordfish of bob", "192.0.2.1")
	try(2, "", "123456", "192.0.2.2")
}
`

// TestLogin runs the log-in of docs/api.md by name within its policy by address: right
// passwords are free, and five wrong ones on each instance shut the name, from any address.
func TestLogin(t *testing.T) {
	kit.OnlyWhole(t, "builds a program")
	block := func(policy string) string {
		for _, b := range blocksOf(t, "go") {
			if b.Page == "docs/api.md" && strings.Contains(b.Text, "Policy: \""+policy+"\"") {
				return b.Text
			}
		}
		t.Fatal("docs/api.md has no policy " + policy)
		return ""
	}
	byAddress, byName := block("login"), block("login-name")
	for _, text := range []string{byAddress, byName} {
		require.Equal(t, 1, strings.Count(text, "Secrets:"))
	}
	require.Equal(t, 1, strings.Count(byName, "http.Handle("))
	program := strings.NewReplacer(
		"BY_ADDRESS", byAddress+"if err != nil {\n\tlog.Fatal(err)\n}\n",
		"BY_NAME", strings.Replace(byName, "http.Handle(", "mux.Handle(", 1),
	).Replace(loginProgram)
	program = strings.ReplaceAll(program, "Secrets:", "Now: noon, Secrets:") // no test may depend on when it runs
	dir := moduleHere(t)
	write(t, filepath.Join(dir, "login", "main.go"), program)
	goHere(t, dir, "build", "-o", "login.program", "./login")
	run := exec.Command(filepath.Join(dir, "login.program"))
	run.Env = append(os.Environ(), "TALLYSTICK_SECRET="+strings.Repeat("s", 32))
	var log strings.Builder // in which it says that two instances are in one process
	run.Stderr = &log
	out, err := run.Output()
	require.NoError(t, err, "%s", &log)
	require.Equal(t, strings.Join([]string{
		strings.TrimSpace(strings.Repeat("303 ", 12)),
		strings.Repeat("401 ", 10) + "429 429",
		"429 429",
		"303 303",
		"400 400",
		"",
	}, "\n"), string(out))
}
