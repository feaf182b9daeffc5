package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A registry says which limits customers have, as a database would.
type registry struct {
	mu     sync.Mutex
	quotas map[string]int64 // 0: none of its own
	fails  func(context.Context) error
	asked  []string // pseudonyms aside: the tier and what the identity is
}

func (reg *registry) limitsFor(ctx context.Context, id middleware.Identity) ([]middleware.Limit, error) {
	reg.mu.Lock()
	name := fmt.Sprint(id.Name())
	reg.asked = append(reg.asked, name)
	quota, fails := reg.quotas[name], reg.fails
	reg.mu.Unlock()
	if fails != nil {
		if err := fails(ctx); err != nil {
			return nil, err
		}
	}
	if quota == 0 {
		return nil, nil
	}
	return []middleware.Limit{fixed(quota, time.Minute)}, nil
}
