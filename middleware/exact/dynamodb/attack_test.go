package dynamodb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
	"github.com/tallystick/tallystick/storeless"
)

const attackChild = "TALLYSTICK_ATTACK_DYNAMODB"

func TestMain(m *testing.M) {
	if url := os.Getenv(attackChild); url != "" {
		os.Exit(attack(url))
	}
	os.Exit(m.Run())
}

const callers = 16 // of each process

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass, and exactly 1000 are counted also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes for half a minute")
	}
	s := startServer(t)
	store := connect(t, s.url())
	lossy := startProxy(t, s.port)
	lossy.set(func(p *proxy) { p.loseEvery = 100 })
	for name, url := range map[string]string{"directly": s.url(), "with lost answers": lossy.url()} {
		t.Run(name, func(t *testing.T) {
			for round := range 2 {
				key, before := fmt.Sprint(name, round), lossy.lost.Load()
				var admitted, lost atomic.Int64
				var wg sync.WaitGroup
				for range 4 {
					child := exec.Command(os.Args[0])
					child.Env = append(os.Environ(), attackChild+"="+url, "TALLYSTICK_ATTACK_KEY="+key)
					child.Stderr = os.Stderr
					wg.Go(func() {
						out, err := child.Output()
						var a, l int64
						if _, e := fmt.Sscan(string(out), &a, &l); err != nil || e != nil {
							t.Errorf("%v, %v: %q", err, e, out)
						}
						admitted.Add(a)
						lost.Add(l)
					})
				}
				wg.Wait()
				require.Zero(t, lost.Load(), "every answer comes in the end")
				// A process that asks again late may find its ID forgotten, which 128 others have
				// overtaken: it is charged once more then, and never admitted too often.
				twice := 1000 - admitted.Load()
				require.GreaterOrEqual(t, twice, int64(0))
				require.LessOrEqual(t, twice, callers*(lossy.lost.Load()-before), "none, where no answer is lost")
				v, err := count(t, store).Peek(t.Context(), exact.Call{Key: key, Cost: 1, Policy: compile(t, yearly(1000))})
				require.NoError(t, err)
				require.Zero(t, v.Limits[0].Remaining)
			}
			if url == lossy.url() {
				require.Positive(t, lossy.lost.Load())
				t.Logf("%d answers were lost", lossy.lost.Load())
			}
		})
	}
}

// attack makes 1250 attempts from 16 goroutines, each again by its ID where the answer is lost
// or the races were, and prints how many were admitted, and how many had no answer.
func attack(url string) int {
	store, err := dynamodb.New(client(url), dynamodb.Config{Table: "tallies"})
	if err != nil {
		println(err.Error())
		return 1
	}
	c, err := cas.New(store, cas.Config{})
	if err != nil {
		println(err.Error())
		return 1
	}
	p, err := exact.Compile("api", []storeless.Limit{yearly(1000)})
	if err != nil {
		println(err.Error())
		return 1
	}
	var admitted, lost atomic.Int64
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for n := w; n < 1250; n += callers {
				call := exact.Call{Key: os.Getenv("TALLYSTICK_ATTACK_KEY"), Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)}
				v, err := c.Take(context.Background(), call)
				for began := time.Now(); err != nil && time.Since(began) < patient; {
					ctx, cancel := context.WithTimeout(context.Background(), exact.IDLife/4)
					v, err = c.Take(ctx, call)
					cancel()
				}
				switch {
				case err != nil:
					lost.Add(1)
				case v.Admitted:
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Print(admitted.Load(), " ", lost.Load())
	return 0
}
