// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
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

// An instance is a limiter whose log is a file, a.log or b.log of a directory.
func instance(t *testing.T, dir, name, secret string, ahead time.Duration, shadow bool) http.Handler {
	t.Helper()
	file := kit.Must(os.Create(filepath.Join(dir, name)))(t)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	limit := kit.Must(middleware.New(middleware.Config{
		Policy: "contact", Limits: []middleware.Limit{{Quota: 5, Window: time.Minute}}, Secrets: [][]byte{[]byte(strings.Repeat(secret, 32))},
		Shadow: shadow, Logger: slog.New(slog.NewTextHandler(file, nil)), Now: func() time.Time { return time.Unix(1_800_000_000, 0).Add(ahead) },
	}))(t)
	return limit.Handler(http.NotFoundHandler())
}

// The searches of the table find what is wrong with two instances, and nothing where nothing is; and the
// line that they look at has the words that the table names.
func TestBeforeYouGoLive(t *testing.T) {
	if _, err := exec.LookPath("grep"); err != nil {
		kit.Unable(t, "there is no grep: %v", err)
	}
	var searches []string
	for _, row := range tableOf(t, "docs/operations.md", "| question |") {
		for _, found := range regexp.MustCompile("`(grep [^`]*) \\*\\.log`").FindAllStringSubmatch(row[1], -1) {
			searches = append(searches, found[1])
		}
	}
	require.Len(t, searches, 4)
	find := func(dir, search string) string {
		var args []string
		for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(search, -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		out, _ := exec.Command(args[0], append(args[1:], filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log"))...).Output() // an error is: nothing
		return strings.TrimSpace(string(out))
	}
	ask := func(h http.Handler, token string, forwarded ...string) string {
		r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
		r.Header["X-Forwarded-For"], r.Header[middleware.TokenHeader] = forwarded, []string{token}
		if len(forwarded) > 0 {
			r.RemoteAddr = "10.0.0.1:4711"
		}
		h.ServeHTTP(w, r)
		return w.Header().Get(middleware.TokenHeader)
	}
	kids, clocks, proxies, trial := searches[0], searches[1], searches[2], searches[3]

	well := t.TempDir()
	a, b := instance(t, well, "a.log", "a", 0, false), instance(t, well, "b.log", "a", 0, false)
	ask(b, ask(a, ""))
	lines := strings.Split(find(well, kids), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, lines[0], lines[1])
	for _, search := range searches[1:] {
		require.Empty(t, find(well, search))
	}
	line := kit.Must(os.ReadFile(filepath.Join(well, "a.log")))(t)
	for _, word := range []string{" identity=middleware.PeerAddress ", " memory=", " instances="} {
		require.Contains(t, string(line), word)
	}

	ill := t.TempDir()
	a, b = instance(t, ill, "a.log", "a", time.Hour, true), instance(t, ill, "b.log", "a", 0, false)
	ask(b, "", "203.0.113.1") // one request a second is looked at
	ask(b, ask(a, ""))
	other := t.TempDir()
	instance(t, other, "a.log", "a", 0, false)
	instance(t, other, "b.log", "b", 0, false)
	lines = strings.Split(find(other, kids), "\n")
	require.Len(t, lines, 2)
	require.NotEqual(t, lines[0], lines[1])
	require.Contains(t, find(ill, clocks), "ahead=")
	require.Contains(t, find(ill, proxies), "proxy-untrusted")
	require.Contains(t, find(ill, trial), "a.log")
}
