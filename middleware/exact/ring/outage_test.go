// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// ownedBy returns a call whose key is a member's.
func ownedBy(t testing.TB, r *ring.Ring, address string, p *exact.Policy) exact.Call {
	for i := range 10_000 {
		if call := (exact.Call{Key: strconv.Itoa(i), Cost: 1, Policy: p}); r.OwnerOf(call) == address {
			return call
		}
	}
	t.Fatal("no key of ", address)
	return exact.Call{}
}

// An owner that hangs, or is gone, is an outage of its keys, and of no others: nobody takes over. Only when the list
// has dropped it does the next in line, and begins with what the caller knows.
func TestNobodyTakesOver(t *testing.T) {
	w := newWorld(t)
	fleet := w.fleet(3)
	p := exactkit.PerYear(t, 5)
	call := ownedBy(t, fleet[0].Ring, fleet[1].address, p)
	require.True(t, exactkit.Take(t, fleet[0], call).Admitted)
	fleet[1].gone = true
	for range 20 {
		_, err := fleet[0].Take(t.Context(), call)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.NotErrorIs(t, err, exact.ErrBusy)
	}
	require.Zero(t, fleet[0].Stats().Accounts+fleet[2].Stats().Accounts)
	require.NotEqual(t, fleet[0].Part(call), fleet[0].Part(ownedBy(t, fleet[0].Ring, fleet[2].address, p)))
	exactkit.Take(t, fleet[0], ownedBy(t, fleet[0].Ring, fleet[2].address, p))

	fleet[0].Adopt(fleet[0].address, fleet[2].address)
	fleet[2].Adopt(fleet[0].address, fleet[2].address)
	known := call
	known.Known = []exact.Used{{ID: p.ID(0), At: w.clock.Now().Unix() / int64(365*24*3600), Cur: 4}}
	require.EqualValues(t, 0, exactkit.Take(t, fleet[0], known).Limits[0].Remaining)
	require.False(t, exactkit.Take(t, fleet[2], call).Admitted, "a dropper finds it so")
}

// A call whose answer was lost is asked again: it is counted once, unless its key has moved meanwhile. Then it is counted
// twice, once by each, and no more.
func TestAskedAgain(t *testing.T) {
	w := newWorld(t)
	fleet := w.fleet(3)
	p := exactkit.PerYear(t, 5)
	call := ownedBy(t, fleet[0].Ring, fleet[1].address, p)
	call.ID = "a"
	w.lose.Store(1)
	_, err := fleet[0].Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	v := exactkit.Take(t, fleet[0], call)
	require.True(t, v.Replayed)
	require.EqualValues(t, 4, v.Limits[0].Remaining)
	fleet[0].Adopt(fleet[2].address)
	w.clock.Advance(time.Second)
	for range 3 {
		v = exactkit.Take(t, fleet[0], call)
		require.EqualValues(t, 4, v.Limits[0].Remaining, "at another, once")
	}
	require.ErrorIs(t, fleet[1].Refund(t.Context(), v.Receipt), exact.ErrNoRefund, "that it does not give back what another has charged")
}

// What is asked of a process hangs on no list of its own: it answers those whose lists are older.
func TestWhoIsAskedAnswers(t *testing.T) {
	w := newWorld(t)
	fleet := w.fleet(3)
	p := exactkit.PerYear(t, 5)
	call := ownedBy(t, fleet[0].Ring, fleet[1].address, p)
	fleet[1].Adopt(fleet[0].address, fleet[2].address)
	require.True(t, exactkit.Take(t, fleet[0], call).Admitted)
	require.EqualValues(t, 1, fleet[1].Stats().Foreign)
	require.Equal(t, 1, fleet[1].Stats().Accounts)
}

// Nothing is left of a ring that is closed.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("", func(t *testing.T) {
		var listeners []net.Listener
		var list []string
		for range 3 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			listeners, list = append(listeners, l), append(list, l.Addr().String())
		}
		find := func(context.Context) ([]string, error) { return list, nil }
		var rings []*ring.Ring
		for i, l := range listeners {
			r, err := ring.Open(ring.Config{Self: list[i], Find: find, Every: 100 * time.Millisecond, Linger: time.Millisecond, Secrets: secrets, Listener: l, Logger: silent})
			require.NoError(t, err)
			rings = append(rings, r)
		}
		p := exactkit.PerYear(t, 50)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				_, err := rings[i%3].Take(t.Context(), exact.Call{Key: strconv.Itoa(i % 10), Cost: 1, Policy: p})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		rings[0].Adopt(list[0]) // the others are dropped, whose connections are idle
		for _, r := range rings {
			require.NoError(t, r.Close())
		}
	})
	requireNoMore(t, before)
}

// requireNoMore waits until there are no more goroutines than before: one that has said that it ends may still be
// on its way out, and a busy machine may leave it there for long.
func requireNoMore(t *testing.T, before int) {
	for range 15_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	all := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, and now %s", before, all[:runtime.Stack(all, true)])
}

// envMember has this binary be a member, with a list on its standard input, and answer calls on its output.
const envMember = "TALLYSTICK_RING_MEMBER"

func TestMain(m *testing.M) {
	if self := os.Getenv(envMember); self != "" {
		if err := beMember(self); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beMember reads lists, one in a line, and keys to be charged, and writes what became of them.
func beMember(self string) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	r, err := ring.Open(ring.Config{Self: self, Members: strings.Fields(lines.Text()), Secrets: secrets, Listener: l, Logger: silent})
	if err != nil {
		return err
	}
	p, err := exact.Compile("api", []storeless.Limit{exactkit.Yearly(5)})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines.Scan() {
		if list := strings.Fields(lines.Text()); len(list) > 1 {
			r.Adopt(list...)
			fmt.Println("adopted")
			continue
		}
		v, err := r.Take(context.Background(), exact.Call{Key: lines.Text(), Cost: 1, Policy: p})
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"admitted": v.Admitted, "failed": err != nil})
	}
	return nil
}

// A running process is a member.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
	self string
}

// startMember starts one that listens where l does: were the port free for a moment, somebody might take it.
func startMember(t *testing.T, l net.Listener, list []string) *running {
	self := l.Addr().String()
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = append(os.Environ(), envMember+"="+self), os.Stderr, []*os.File{file}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &running{t, cmd, in, bufio.NewScanner(out), self}
	t.Cleanup(p.kill)
	require.NoError(t, file.Close()) // or it would be listened to when the process has been killed
	require.NoError(t, l.Close())
	require.Equal(t, "ready", p.say(strings.Join(list, " ")))
	return p
}

func (p *running) say(line string) string {
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	require.True(p.t, p.out.Scan())
	return p.out.Text()
}

func (p *running) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Three processes count as one, and go on when one of them is killed: its keys have an outage until the lists drop it,
// and then a new owner.
func TestThreeProcesses(t *testing.T) {
	var listeners []net.Listener
	var list []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners, list = append(listeners, l), append(list, l.Addr().String())
	}
	var all []*running
	for _, l := range listeners {
		all = append(all, startMember(t, l, list))
	}
	const keys = 60 // the ports are chance: of 30 keys one of 200,000 runs had a process that owned none
	flood := func(of []*running, name string) (admitted, failed int) {
		for i := range keys * 6 {
			var v struct{ Admitted, Failed bool }
			require.NoError(t, json.Unmarshal([]byte(of[i%len(of)].say(fmt.Sprint(name, i%keys))), &v))
			if v.Admitted {
				admitted++
			}
			if v.Failed {
				failed++
			}
		}
		return admitted, failed
	}
	admitted, failed := flood(all, "a")
	require.Equal(t, 5*keys, admitted)
	require.Zero(t, failed)
	all[1].kill()
	rest := []*running{all[0], all[2]}
	admitted, failed = flood(rest, "b")
	require.Zero(t, failed%6, "all calls for the keys of one")
	require.Positive(t, failed)
	require.Equal(t, (6*keys-failed)/6*5, admitted)
	for _, p := range rest {
		require.Equal(t, "adopted", p.say(list[0]+" "+list[2]))
	}
	more, failed := flood(rest, "b")
	require.Zero(t, failed)
	require.Equal(t, 5*keys-admitted, more)
}
