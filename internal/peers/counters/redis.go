// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/internal/peers"
)

// A redisServer is that of one counter alone: what it costs and holds is the counter's.
type redisServer struct {
	process *peers.Redis
	admin   *goredis.Client
	closers []func() error
}

// CPU implements [Server].
func (s *redisServer) CPU() (time.Duration, error) { return processorTime(s.process.PID()) }

// Bytes implements [Server].
func (s *redisServer) Bytes() (int64, error) { return peers.UsedMemory(s.admin) }

// closing adds what is closed before the server ends, the last first.
func (s *redisServer) closing(f func() error) { s.closers = append(s.closers, f) }

func (s *redisServer) close() (err error) {
	for _, f := range slices.Backward(s.closers) {
		err = errors.Join(err, f())
	}
	return errors.Join(err, s.admin.Close(), s.process.Stop())
}

// served opens a counter on a server.
func served(open func(*redisServer) (*Opened, error)) (*Opened, error) {
	process, err := peers.StartRedis(context.Background())
	if err != nil {
		return nil, err
	}
	s := &redisServer{process: process, admin: goredis.NewClient(&goredis.Options{Addr: process.Addr(), PoolSize: 1})}
	if err := peers.Answering(s.admin); err != nil {
		return nil, errors.Join(err, s.close())
	}
	o, err := open(s)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	o.Server, o.Close = s, s.close
	return o, nil
}

// pool is a client as redis_rate's users have one: of a connection a call.
func pool(s *redisServer) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.process.Addr(), MaxRetries: -1, PoolSize: 16})
	s.closing(client.Close)
	return client
}

// openRedisRate takes an hour's worth for a key's first time: redis_rate lets a key
// expire when it has nothing to remember, which with a quota that is far away is after
// a second.
func openRedisRate(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		limiter := redis_rate.NewLimiter(pool(s))
		limit := redis_rate.Limit{Rate: 1 << 20, Period: time.Hour, Burst: quota}
		take := func(key string, n int) (bool, error) {
			r, err := limiter.AllowN(context.Background(), key, limit, n)
			if err != nil {
				return false, err
			}
			return r.Allowed == n, nil
		}
		return &Opened{
			Take:  func(key string) (bool, error) { return take(key, 1) },
			First: func(key string) (bool, error) { return take(key, limit.Rate) },
		}, nil
	})
}

// PING is the floor: what a round trip to a server costs that does nothing.
func openPingGoRedis(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		client := pool(s)
		return &Opened{Take: func(string) (bool, error) { return true, client.Ping(context.Background()).Err() }}, nil
	})
}

// openPingRueidis has the client that exact/redis has.
func openPingRueidis(string) (*Opened, error) {
	return served(func(s *redisServer) (*Opened, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.process.Addr()}, DisableCache: true, AlwaysPipelining: true})
		if err != nil {
			return nil, err
		}
		s.closing(func() error { client.Close(); return nil })
		return &Opened{Take: func(string) (bool, error) {
			return true, client.Do(context.Background(), client.B().Ping().Build()).Error()
		}}, nil
	})
}
