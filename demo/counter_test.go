package main

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuoteIsExactOnAFile is what TestQuoteIsExactAcrossInstances is in memory. A disk
// that takes longer than the deadline costs an answer, never a request too many.
func TestQuoteIsExactOnAFile(t *testing.T) {
	o := standard(3)
	o.counter = "file:" + filepath.Join(t.TempDir(), "counts")
	site := startWith(t, o)
	var passed, unsure atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := site.client(t)
			for range 10 {
				switch c.do("GET", "/api/quote", "", bearer("demo-free")).StatusCode {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusServiceUnavailable:
					unsure.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, passed.Load(), int64(5))
	require.GreaterOrEqual(t, passed.Load()+unsure.Load(), int64(5))
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
	require.ErrorContains(t, err, "another process counts in it")
	first.stop()
	<-first.done
	require.Contains(t, left(startWith(t, o)), `"day";r=999998;`)
}

func TestUnnamedCounterIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, closer, err := openCounter("", time.Now)
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
	for _, spec := range []string{"", "memory", "file:counts.db"} {
		require.NoError(t, checkCounter(spec))
	}
	for _, spec := range []string{"file:", "disk", "memory:", "counts.db"} {
		require.EqualError(t, checkCounter(spec), `-counter is "`+spec+`"; it must be memory or file:PATH`)
	}
}
