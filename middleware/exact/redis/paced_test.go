// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"

	"github.com/tallystick/tallystick/internal/paced"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

func openAt(url string) (exact.Counter, error) { return redis.Open(url, redis.Config{}) }

// Real processes share one limit on a server, each booking its calls.
func TestPaced(t *testing.T) { paced.Test(t, startServer(t).url(), openAt) }

func TestPacedChild(t *testing.T) { paced.Child(t, openAt) }
