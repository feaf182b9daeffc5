// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func bearer(key string) string { return "Authorization: Bearer " + key }

// quotesAtOnce has many clients of one key ask all instances at once, 80 times in all: answers by status.
func (s *server) quotesAtOnce(t *testing.T) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	kit.Together(8, func(int) {
		c := s.client(t)
		for range 10 {
			status := c.do("GET", "/api/quote", "", bearer("demo-free")).StatusCode
			mu.Lock()
			statuses[status]++
			mu.Unlock()
		}
	})
	return statuses
}

// The burst of five passes, and not five on each instance.
func TestQuoteIsExactAcrossInstances(t *testing.T) {
	require.Equal(t, map[int]int{http.StatusOK: 5, http.StatusTooManyRequests: 75}, start(t, 3).quotesAtOnce(t))
}

func TestQuoteTiers(t *testing.T) {
	c := start(t, 2).client(t)
	for key, want := range map[string]string{
		"demo-free":          `"burst";q=5;w=3, "day";q=200;w=86400`,
		"demo-researcher":    `"burst";q=30;w=3, "day";q=5000;w=86400`,
		"demo-compliance":    `"burst";q=200;w=4, "day";q=100000;w=86400`,
		"demo-vendor":        `"burst";q=1000;w=5, "day";q=1000000;w=86400`,
		"demo-vendor/maps":   `"burst";q=1000;w=5, "day";q=1000000;w=86400`,
		"demo-vendor/search": `"burst";q=1000;w=5, "day";q=1000000;w=86400`,
	} {
		a := c.do("GET", "/api/quote", "", bearer(key))
		require.Equal(t, http.StatusOK, a.StatusCode, key)
		require.Equal(t, want, a.Header.Get("RateLimit-Policy"), key)
		_, burst, _ := strings.Cut(want, "q=")
		burst, _, _ = strings.Cut(burst, ";")
		require.NotContains(t, a.Header.Get("RateLimit"), "r="+burst+";", "it was counted")
		require.Contains(t, a.body, `"left":{"burst":`)
	}
}

func TestQuoteWantsAKeyThatIsKnown(t *testing.T) {
	c := start(t, 1).client(t)
	a := c.do("GET", "/api/quote", "")
	require.Equal(t, http.StatusUnauthorized, a.StatusCode)
	require.Equal(t, `Bearer realm="demo"`, a.Header.Get("WWW-Authenticate"))
	for _, key := range []string{"demo-gold", "demo-vendor/nonsense", "demo-free/maps", "demo-vendor/"} {
		require.Equal(t, http.StatusForbidden, c.do("GET", "/api/quote", "", bearer(key)).StatusCode, key)
	}
}

func TestProductsCountApart(t *testing.T) {
	c := start(t, 3).client(t)
	require.Equal(t, http.StatusOK, c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")).StatusCode)
	maps := c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")).Header.Get("RateLimit")
	mail := c.do("GET", "/api/quote", "", bearer("demo-vendor/mail")).Header.Get("RateLimit")
	require.Contains(t, maps, `"day";r=999998`)
	require.Contains(t, mail, `"day";r=999999`)
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
	_, _, err := openCounter(again.counter, time.Now)
	require.ErrorContains(t, err, "another counter has it open")
	first.stop()
	<-first.done
	require.Contains(t, left(startWith(t, o)), `"day";r=999998;`)
}

func TestUnnamedCounterIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, done, err := openCounter("", time.Now)
	require.NoError(t, err)
	require.NotNil(t, c)
	inside := kit.Must(filepath.Glob(filepath.Join(os.TempDir(), "tallystick-demo-*", "counts")))(t)
	require.Len(t, inside, 1)
	require.NoError(t, done())
	left := kit.Must(os.ReadDir(os.TempDir()))(t)
	require.Empty(t, left)
}

func TestCounterFlag(t *testing.T) {
	for _, spec := range []string{"", "memory", "file:counts.db", "redis://localhost:6379/0", "rediss://u:p@localhost"} {
		kit.Must(parse([]string{"-counter", spec}, io.Discard))(t)
	}
	for _, spec := range []string{"file:", "disk", "memory:", "counts.db", "serve:127.0.0.1:9000", "http://127.0.0.1:9000/", "ring:a:1,b:1", "redis:u:secret@localhost"} {
		_, err := parse([]string{"-counter", spec}, io.Discard)
		require.EqualError(t, err, "-counter must be memory, file:PATH or redis://HOST:PORT/DB")
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
		least = kit.Must(strconv.Atoi(day))(t)
	}
	require.Equal(t, 1_000_000-40, least)
}
