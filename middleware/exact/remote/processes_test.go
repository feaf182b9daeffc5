// SPDX-License-Identifier: Apache-2.0

//go:build unix

package remote_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// envServe has this binary be an owner, at a port.
const envServe = "TALLYSTICK_REMOTE_SERVE"

func TestMain(m *testing.M) {
	if port := os.Getenv(envServe); port != "" {
		h, err := remote.Serve(memory.New(0, nil), secrets)
		if err == nil {
			go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // until its parent is gone
			err = http.ListenAndServe("127.0.0.1:"+port, h)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	exactkit.Process(openAt)
	os.Exit(m.Run())
}

// openAt opens the counter of another process.
func openAt(url string) (exact.Counter, error) { return remote.Open([]string{url}, secrets) }

// startServed starts a process with a counter in its memory, which it serves.
func startServed(t testing.TB) *exactkit.Server {
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env, c.Stderr = append(os.Environ(), envServe+"="+port), os.Stderr
		_, err := c.StdinPipe() // it ends when that does
		require.NoError(t, err)
		return c
	})
}

// processes runs a test with each owner as a process of its own. keeps says that its counts
// outlive it.
func processes(t *testing.T, test func(t *testing.T, owner *exactkit.Server, keeps bool)) {
	t.Run("Serve", func(t *testing.T) { test(t, startServed(t), false) })
	t.Run("the Durable Object", func(t *testing.T) { test(t, startWorkerd(t, shipped, t.TempDir()), true) })
}

// 1000 of 5000 attempts, by four processes, and none more when the owner was killed and is back
// with what it has in storage.
func TestFourProcessesPassExactlyTheQuota(t *testing.T) {
	processes(t, func(t *testing.T, owner *exactkit.Server, keeps bool) {
		c := open(t, secrets, at(owner.Addr()))
		exactkit.Processes(t, 1, at(owner.Addr()), c, nil)
		if keeps {
			owner.Kill()
			owner.Start()
			call := exact.Call{Key: t.Name() + "0", Cost: 1, Policy: exactkit.PerYear(t, 1000)}
			require.Zero(t, exactkit.Admitted(t, 25, 1, func(int, int) (exact.Counter, exact.Call) { return c, call }))
		}
	})
}

// What befalls an owner, or the way to it, amid a load: what was admitted stays counted, and an ID that
// was admitted before is known after. Nothing of it goes beyond the quota. What was charged before is
// given back after.
func TestFaultsOfAnOwner(t *testing.T) {
	processes(t, func(t *testing.T, owner *exactkit.Server, keeps bool) {
		p := exactkit.StartProxy(t, owner.Addr())
		c := open(t, secrets, at(p.Addr().String()))
		call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1)}
		first := exactkit.Take(t, c, call)
		all := exactkit.OfAServer(p, owner.Kill, owner.Start, owner.Freeze, owner.Thaw)
		if !keeps {
			all = slices.DeleteFunc(all, func(f exactkit.Fault) bool { return strings.HasPrefix(f.Name, "killed") })
		}
		exactkit.AmidALoad(t, all, 500*time.Millisecond, func(*testing.T) exact.Counter { return c })
		require.False(t, exactkit.Take(t, c, call).Admitted)
		require.NoError(t, c.Refund(t.Context(), first.Receipt))
		require.True(t, exactkit.Take(t, c, call).Admitted, "one was given back")
	})
}

// A frozen owner is an outage of a deadline, and what it does when it goes on is done once.
func TestFrozenOwner(t *testing.T) {
	processes(t, func(t *testing.T, owner *exactkit.Server, _ bool) {
		c, p := open(t, secrets, at(owner.Addr())), exactkit.PerYear(t, 5)
		exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		owner.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// Its deadline is when the call is on its way: before, a busy machine would have sent nothing.
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
		call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: "frozen"}
		_, err := c.Take(ctx, call)
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
		owner.Thaw()
		v := exactkit.Take(t, c, call)
		require.True(t, v.Admitted)
		require.EqualValues(t, 3, v.Limits[0].Remaining)
	})
}

// The connection is cut in the middle of an answer, at each of its bytes in turn: the call is
// asked for again, and counted once.
func TestCutInTheMiddleOfAnAnswer(t *testing.T) {
	processes(t, func(t *testing.T, owner *exactkit.Server, _ bool) {
		cut := exactkit.StartProxy(t, owner.Addr())
		c, p := open(t, secrets, at(cut.Addr().String())), exactkit.PerYear(t, 100)
		for n := range 40 {
			call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(n)}
			cut.Set(exactkit.Ways{CutAfter: 1 + 10*n})
			_, err := c.Take(t.Context(), call)
			if err != nil { // of the first bytes, http.Transport has asked again itself
				require.ErrorIs(t, err, exact.ErrMaybeCounted)
			}
			lost := cut.Lost.Load()
			cut.Set(exactkit.Ways{})
			v := exactkit.Take(t, c, call)
			require.True(t, v.Admitted && v.Replayed, "%d, lost %d", n, lost)
			require.EqualValues(t, 99-n, v.Limits[0].Remaining)
		}
		require.Greater(t, cut.Lost.Load(), int64(20))
	})
}
