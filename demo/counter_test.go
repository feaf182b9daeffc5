// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// TestQuoteIsExactOnAFile is what TestQuoteIsExactAcrossInstances is in memory. A disk
// that takes longer than the deadline costs an answer, never a request too many.
func TestQuoteIsExactOnAFile(t *testing.T) {
	o := standard(3)
	o.counter = "file:" + filepath.Join(t.TempDir(), "counts")
	statuses := startWith(t, o).quotesAtOnce(t)
	require.LessOrEqual(t, statuses[http.StatusOK], 5)
	require.GreaterOrEqual(t, statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable], 5)
}

// A day's quota outlives the process in a file that was named, and that another process
// cannot count in meanwhile.
func TestCountsOutliveTheDemo(t *testing.T) {
	o := standard(1)
	o.counter = "file:" + filepath.Join(t.TempDir(), "counts")
	first := startWith(t, o)
	left := func(s *server) string {
		a := s.client(t).do("GET", "/api/quote", "", bearer("demo-vendor/maps"))
		require.Equal(t, http.StatusOK, a.StatusCode)
		return a.Header.Get("RateLimit")
	}
	require.Contains(t, left(first), `"day";r=999999;`)
	again := o
	_, _, err := openCounter(again.counter, time.Now, nil, io.Discard, slog.Default())
	require.ErrorContains(t, err, "another counter has it open")
	first.stop()
	<-first.done
	require.Contains(t, left(startWith(t, o)), `"day";r=999998;`)
}

func TestUnnamedCounterIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, closer, err := openCounter("", time.Now, nil, io.Discard, slog.Default())
	require.NoError(t, err)
	require.NotNil(t, c)
	inside, err := filepath.Glob(filepath.Join(os.TempDir(), "tallystick-demo-*", "counts"))
	require.NoError(t, err)
	require.Len(t, inside, 1)
	require.NoError(t, closer.Close())
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCounterFlag(t *testing.T) {
	for _, spec := range []string{"", "memory", "file:counts.db", "redis://localhost:6379/0", "rediss://u:p@localhost", "serve:127.0.0.1:9000", "http://127.0.0.1:9000/", "ring:127.0.0.1:9000,127.0.0.1:9001"} {
		require.NoError(t, checkCounter(spec))
	}
	for _, spec := range []string{"file:", "disk", "memory:", "counts.db", "serve:", "ring:", "redis:u:secret@localhost"} {
		require.EqualError(t, checkCounter(spec), "-counter must be memory, file:PATH, redis://HOST:PORT/DB, ring:SELF,MEMBER,MEMBER, serve:HOST:PORT or http://HOST:PORT/")
	}
}

// TestQuoteIsExactOnRedis has two processes of the demo, as it were, share a server.
func TestQuoteIsExactOnRedis(t *testing.T) {
	o := standard(2)
	o.counter = "redis://" + kit.Redis(t) + "/0"
	clients := []*client{startWith(t, o).client(t), startWith(t, o).client(t)}
	for _, c := range clients { // an attempt to connect ends after a second, and that is not long where a machine is busy
		eventually(t, "connected", func() bool {
			return c.do("GET", "/api/quote", "", bearer("demo-vendor/mail")).StatusCode == http.StatusOK
		})
	}
	var least int
	for n := range 40 {
		a := clients[n%2].do("GET", "/api/quote", "", bearer("demo-vendor/maps"))
		require.Equal(t, http.StatusOK, a.StatusCode, a.body)
		_, day, _ := strings.Cut(a.Header.Get("RateLimit"), `"day";r=`)
		day, _, _ = strings.Cut(day, ";")
		var err error
		least, err = strconv.Atoi(day)
		require.NoError(t, err)
	}
	require.Equal(t, 1_000_000-40, least)
}

// One process has the counter, and two others call it by HTTP. While the owner is away the route
// is closed; it has counted nobody twice.
func TestQuoteIsExactOverHTTP(t *testing.T) {
	o := standard(1)
	o.secretFile = filepath.Join(t.TempDir(), "secrets")
	require.NoError(t, os.WriteFile(o.secretFile, []byte(strings.Repeat("demo", 10)), 0o600))
	o.counter = "serve:127.0.0.1:0"
	owner := startWith(t, o)
	o.counter = owner.counter
	clients := []*client{owner.client(t), startWith(t, o).client(t), startWith(t, o).client(t)}
	passed := 0
	for n := range 30 {
		if clients[n%3].do("GET", "/api/quote", "", bearer("demo-free")).StatusCode == http.StatusOK {
			passed++
		}
	}
	require.Equal(t, 5, passed)
	owner.stop()
	<-owner.done
	require.Equal(t, http.StatusServiceUnavailable, clients[1].do("GET", "/api/quote", "", bearer("demo-vendor/maps")).StatusCode)

	o.secretFile = ""
	o.stdout = io.Discard
	require.ErrorContains(t, run(t.Context(), o), "needs a -secret-file")
}

// Three processes are the counter, without another: each counts a part of the keys.
func TestQuoteIsExactOnARing(t *testing.T) {
	o := standard(1)
	o.secretFile = filepath.Join(t.TempDir(), "secrets")
	require.NoError(t, os.WriteFile(o.secretFile, []byte(strings.Repeat("demo", 10)), 0o600))
	var list []string
	for range 3 {
		list = append(list, "127.0.0.1:"+kit.FreePort(t))
	}
	var said bytes.Buffer
	o.log = slog.New(slog.NewTextHandler(&said, nil))
	var processes []*server
	var clients []*client
	for _, self := range list {
		o.counter = "ring:" + strings.Join(append([]string{self}, list...), ",")
		processes = append(processes, startWith(t, o))
		clients = append(clients, processes[len(processes)-1].client(t))
	}
	passed := 0
	for n := range 30 {
		if clients[n%3].do("GET", "/api/quote", "", bearer("demo-free")).StatusCode == http.StatusOK {
			passed++
		}
	}
	require.Equal(t, 5, passed)
	calls := make(map[string]int)
	for _, c := range clients {
		page := c.do("GET", metricsPath, "").body
		require.Contains(t, page, "\ntallystick_ring_members 3\n")
		require.Contains(t, page, "\ntallystick_ring_accounts ")
		for _, m := range regexp.MustCompile(`(?m)^tallystick_ring_calls_total\{tallystick_ring_call="(\w+)"\} (\d+)$`).FindAllStringSubmatch(page, -1) {
			n, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			calls[m[1]] += n
		}
	}
	require.Positive(t, calls["own"])
	require.Positive(t, calls["out"])
	require.Equal(t, calls["out"], calls["served"])
	require.Zero(t, calls["foreign"])
	for _, p := range processes {
		p.stop()
		<-p.done
	}
	require.Equal(t, 3, strings.Count(said.String(), " code=ring-members members=3 "))

	o.counter = "ring:nowhere"
	o.stdout = io.Discard
	require.ErrorContains(t, run(t.Context(), o), "Self: must be host:port")
}

// The first program of the README, with what docs/counters.md adds for a ring: two processes have one quota, of
// clients too that show no token.
func TestFirstProgramOnARing(t *testing.T) {
	kit.Outside(t)
	kit.OnlyWhole(t, "builds the first program")
	blocks, _, err := pages.Read("../docs/counters.md")
	require.NoError(t, err)
	at := slices.IndexFunc(blocks, func(b pages.Block) bool { return strings.Contains(b.Text, "ring.Open(") })
	require.GreaterOrEqual(t, at, 0)
	const now = `Now: func() time.Time { return time.Unix(1_800_000_000, 0) }`
	lines := kit.Replace(t, blocks[at].Text,
		`os.Getenv("FLY_PRIVATE_IP"), "9000"`, `"127.0.0.1", os.Getenv("RING_PORT")`,
		`DNS:     os.Getenv("FLY_APP_NAME") + ".internal:9000",`, `Members: strings.Split(os.Getenv("RING"), ","),`,
		`{secret}`, `{[]byte(os.Getenv("RING_SECRET"))}, `+now,
		`middleware.FailOpen`, `middleware.FailOpen, Deadline: 10 * time.Second`)
	program := kit.Build(t, "quickstart",
		"import (", "import (\n\t\"net\"\n\t\"strings\"\n\t\"github.com/tallystick/tallystick/middleware/exact/ring\"",
		"limit, err := middleware.New(middleware.Config{", "cfg := middleware.Config{ "+now+",",
		"\t})\n\tif err", "\t}\n"+lines+"\tlimit, err := middleware.New(cfg)\n\tif err")
	ports := []string{kit.FreePort(t), kit.FreePort(t)}
	var urls []string
	for _, port := range ports {
		addr := "127.0.0.1:" + kit.FreePort(t)
		urls = append(urls, "http://"+addr+"/contact")
		process := exec.Command(program)
		process.Stderr = os.Stderr
		process.Env = append(os.Environ(), "ADDR="+addr, "TALLYSTICK_SECRET="+strings.Repeat("s", 32),
			"RING_SECRET="+strings.Repeat("r", 32), "RING_PORT="+port, "RING=127.0.0.1:"+strings.Join(ports, ",127.0.0.1:"))
		require.NoError(t, process.Start())
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
	}
	for _, url := range urls { // a GET is no request of the policy's
		require.Eventually(t, func() bool {
			resp, err := http.Get(url)
			return err == nil && resp.Body.Close() == nil
		}, patient, 10*time.Millisecond)
	}
	var statuses []int
	for n := range 6 {
		resp, err := http.Post(urls[n%2], "", nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		statuses = append(statuses, resp.StatusCode)
	}
	require.Equal(t, []int{200, 200, 200, 200, 200, 429}, statuses)
}
