// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// members are who is in the ring of this instance, as the lab has told it, and to whom its links are cut.
type members struct {
	ring *ring.Ring
	next *http.Transport

	mu        sync.Mutex
	list, cut []string
}

var errCut = errors.New("the link is cut")

// join makes an instance a member of the ring of the addresses of all instances.
func join(list string, cfg Config, now func() time.Time) (*members, error) {
	m := &members{list: strings.Split(list, ","), next: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	var err error
	m.ring, err = ring.Open(ring.Config{
		Self: m.list[cfg.Place], Find: m.find, Every: 100 * time.Millisecond, Secrets: [][]byte{cfg.Secret},
		Transport: m, Logger: slog.New(slog.DiscardHandler), Now: now,
	})
	return m, err
}

func (m *members) find(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list, nil
}

// tell changes both, and waits until the ring goes by the list.
func (m *members) tell(ctx context.Context, list, cut string) error {
	m.mu.Lock()
	m.list, m.cut = strings.Split(list, ","), strings.Split(cut, ",")
	all := slices.Sorted(slices.Values(m.list))
	m.mu.Unlock()
	for !slices.Equal(all, m.ring.Stats().Members) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// RoundTrip implements [http.RoundTripper]. A call on a link that is cut fails at once: where it is lost, it
// fails at the deadline of the policy, and comes to the same.
func (m *members) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	cut := slices.Contains(m.cut, r.URL.Host)
	m.mu.Unlock()
	if cut {
		return nil, errors.Join(errCut, r.Body.Close())
	}
	return m.next.RoundTrip(r)
}
