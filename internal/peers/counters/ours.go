// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/storeless"
)

// quota is that of everybody, in an hour.
const quota = storeless.MaxQuota

func compile() (*exact.Policy, error) {
	return exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: quota, Window: time.Hour}})
}

// ours asks a counter of ours.
func ours(c exact.Counter, closing func() error) (*Opened, error) {
	p, err := compile()
	if err != nil {
		return nil, err
	}
	return &Opened{Close: closing, Take: func(key string) (bool, error) {
		v, err := c.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p})
		return v.Admitted, err
	}}, nil
}

func openMemory(string) (*Opened, error) {
	return ours(exact.NewMemory(0, nil), func() error { return nil })
}

func openFile(dir string) (*Opened, error) {
	c, err := file.Open(filepath.Join(dir, "counts"), file.Config{})
	if err != nil {
		return nil, err
	}
	return ours(c, c.Close)
}

func dial(s *redisServer) (exact.ArchiveCloser, error) {
	c, err := redis.Open("redis://"+s.process.Addr()+"/0", redis.Config{})
	if err == nil {
		s.closing(c.Close)
	}
	return c, err
}

func openRedis(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		c, err := dial(s)
		if err != nil {
			return nil, err
		}
		return ours(c, nil)
	})
}

// openRedisIDs gives each call an ID of its own, as the middleware does: the answer to
// a call that is asked once more is kept.
func openRedisIDs(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		c, err := dial(s)
		if err != nil {
			return nil, err
		}
		p, err := compile()
		var last atomic.Uint64
		return &Opened{Take: func(key string) (bool, error) {
			id := "0123456789abcdef" + strconv.FormatUint(last.Add(1), 36)
			v, err := c.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, ID: id})
			return v.Admitted, err
		}}, err
	})
}

func openRedisLeased(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		c, err := dial(s)
		if err != nil {
			return nil, err
		}
		l, err := exact.Lease(c, exact.LeaseConfig{})
		if err != nil {
			return nil, err
		}
		s.closing(l.Close)
		return ours(l, nil)
	})
}
