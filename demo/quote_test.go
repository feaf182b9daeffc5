// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func bearer(key string) string { return "Authorization: Bearer " + key }

// quotesAtOnce has many clients of one key ask all instances at once, 80 times in all: answers by status.
func (s *server) quotesAtOnce(t *testing.T) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := s.client(t)
			for range 10 {
				status := c.do("GET", "/api/quote", "", bearer("demo-free")).StatusCode
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
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

func TestQuoteDayIsExactAndProductsCountApart(t *testing.T) {
	site := start(t, 3)
	c := site.client(t)
	passed := 0
	for range 300 {
		if c.do("GET", "/api/quote", "", bearer("demo-free")).StatusCode == http.StatusOK {
			passed++
		}
		site.seconds.Add(1)
	}
	require.Equal(t, 200, passed)
	require.Equal(t, http.StatusOK, c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")).StatusCode)
	maps := c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")).Header.Get("RateLimit")
	mail := c.do("GET", "/api/quote", "", bearer("demo-vendor/mail")).Header.Get("RateLimit")
	require.Contains(t, maps, `"day";r=999998`)
	require.Contains(t, mail, `"day";r=999999`)
}
