// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is compared must do the same: count each address by itself, whatever the
// port, admit the quota and refuse the next.
func TestLimitersAgree(t *testing.T) {
	const quota = 3
	for _, l := range Limiters() {
		if l.Unlimited {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			instance, err := l.New(Served(), Terms{Quota: quota, Window: time.Hour, Clients: 2})
			need(t, err)
			defer func() { require.NoError(t, instance.Close()) }()
			ask := func(address string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(l.Request.Method, "http://peers.test/contact", http.NoBody)
				r.RemoteAddr = address
				w := httptest.NewRecorder()
				instance.ServeHTTP(w, r)
				return w
			}
			for i := range quota {
				w := ask("10.1.2.3:4000" + string(rune('0'+i)))
				require.Equal(t, http.StatusOK, w.Code)
				require.Equal(t, string(body), w.Body.String())
			}
			for range 2 {
				w := ask("10.1.2.3:50000")
				require.Equal(t, http.StatusTooManyRequests, w.Code)
				require.NotEqual(t, string(body), w.Body.String())
			}
			require.Equal(t, http.StatusOK, ask("10.1.2.4:40000").Code)
		})
	}
}

// The benchmarks' own workloads, small.
func TestStages(t *testing.T) {
	const clients = 200
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			for _, c := range []struct {
				terms Terms
				want  int
			}{{Plenty(clients), http.StatusOK}, {One(clients), http.StatusTooManyRequests}} {
				if l.Unlimited && c.want != http.StatusOK {
					continue
				}
				s, err := newStage(l, c.terms, c.want)
				need(t, err)
				for _, seat := range s.seats {
					for range 640 {
						seat.send()
					}
				}
				require.NoError(t, audit(s.seats, nil, 640*len(s.seats)))
				require.NoError(t, s.instance.Close())
			}
		})
	}
}

func TestNames(t *testing.T) {
	names := make(map[string]bool)
	for _, l := range Limiters() {
		require.Regexp(t, `^[a-z_-]+$`, l.Name, "it stands in the name of a benchmark")
		names[l.Name] = true
	}
	require.Len(t, names, len(Limiters()))
	require.Equal(t, Ours, Limiters()[0].Name)
}

func TestRoomy(t *testing.T) {
	require.Equal(t, 1<<16, roomy(1))
	require.Equal(t, 1<<18, roomy(100_000))
	require.Equal(t, 1<<21, roomy(1_000_000))
}

func TestForgeries(t *testing.T) {
	c := population(t, 1)
	for _, f := range forgeries(t, c.Token(0)) {
		t.Run(f.name, func(t *testing.T) { requireRefusedToken(t, c, f) })
	}
}
