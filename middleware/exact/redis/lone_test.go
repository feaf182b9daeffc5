// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// clientsOf returns what the server says of its connections that last sent a command.
func (s *server) clientsOf(command string) (ids []string) {
	for line := range strings.SplitSeq(s.do("CLIENT", "LIST"), "\n") {
		if strings.Contains(line, " cmd="+command+" ") {
			ids = append(ids, strings.TrimPrefix(strings.Fields(line)[0], "id="))
		}
	}
	return ids
}

// aloneOn has a caller call until it does so on the connection for lone calls, and returns
// the server's number of that. The client asks for it: calls that are not alone have several
// connections, and take one by chance.
func aloneOn(t *testing.T, s *server, c *redis.Counter, take func(id string) (exact.Verdict, error)) (alone string) {
	t.Helper()
	n := 0
	require.Eventually(t, func() bool {
		var made bool
		alone, made = c.LoneID()
		n++
		_, err := take("warm" + strconv.Itoa(n))
		require.NoError(t, err)
		return made && slices.Contains(s.clientsOf("evalsha"), alone)
	}, patient, 10*time.Millisecond)
	return alone
}

func lonely(t *testing.T) (*server, *redis.Counter, func(id string) (exact.Verdict, error)) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 1_000_000)
	return s, c, func(id string) (exact.Verdict, error) {
		return c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: id})
	}
}

// A connection that is cut between calls costs no call with an ID its verdict, and counts none
// twice; a later caller has another.
func TestLoneConnectionIsCut(t *testing.T) {
	s, c, take := lonely(t)
	alone := aloneOn(t, s, c, take)
	before, err := take("before")
	require.NoError(t, err)
	s.do("CLIENT", "KILL", "ID", alone)
	after, err := take("after")
	require.NoError(t, err)
	require.True(t, after.Admitted)
	require.False(t, after.Replayed)
	require.Equal(t, before.Limits[0].Remaining-1, after.Limits[0].Remaining)
	require.NotEqual(t, alone, aloneOn(t, s, c, take))
}

// Without an ID nothing is asked again: it may have been counted.
func TestLoneCallWithoutAnIDIsNotRepeated(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	c := open(t, throughProxy(p))
	policy := exactkit.PerYear(t, 1_000_000)
	take := func(id string) (exact.Verdict, error) {
		return c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: policy, ID: id})
	}
	for alone, lost := "", false; !lost; {
		alone = aloneOn(t, s, c, take)
		before, err := take("")
		require.NoError(t, err)
		p.Set(exactkit.Ways{LoseEvery: 1})
		_, err = take("")
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
		p.Set(exactkit.Ways{})
		id, ok := c.LoneID() // on a busy machine the call may have gone with the others
		lost = !ok || id != alone
		after, err := take("")
		require.NoError(t, err)
		require.Equal(t, before.Limits[0].Remaining-2, after.Limits[0].Remaining)
	}
}

// A lone call keeps its deadline, may have been counted, and leaves the others their
// connection.
func TestLoneCallKeepsItsDeadline(t *testing.T) {
	s, c, take := lonely(t)
	sentInTime(t, func() []error {
		aloneOn(t, s, c, take)
		s.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for n := range errs {
			wg.Go(func() {
				_, errs[n] = c.Take(ctx, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: exactkit.PerYear(t, 5)})
				if !errors.Is(errs[n], context.DeadlineExceeded) {
					t.Error(errs[n])
				}
			})
		}
		ends(t, &wg)
		s.Thaw()
		connected(t, c) // where it froze for a second, the client has given the connections up
		return errs
	})
	_, err := take("well")
	require.NoError(t, err)
}

// A lone caller finds its scripts where the server has lost them.
func TestLoneCallerLoadsScripts(t *testing.T) {
	s, c, take := lonely(t)
	aloneOn(t, s, c, take)
	before, err := take("before")
	require.NoError(t, err)
	s.do("SCRIPT", "FLUSH")
	after, err := take("")
	require.NoError(t, err)
	require.Equal(t, before.Limits[0].Remaining-1, after.Limits[0].Remaining)
}

// A call that may be cancelled before its deadline, and is not short, goes where that ends it.
func TestCallIsCancelled(t *testing.T) {
	s, c, take := lonely(t)
	sentInTime(t, func() []error {
		aloneOn(t, s, c, take)
		s.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(deadline, cancel)
		_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.ErrorIs(t, err, context.Canceled)
		s.Thaw()
		connected(t, c) // as above
		return []error{err}
	})
}
