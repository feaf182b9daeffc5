package redis_test

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
)

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000, 20
// times: exactly 1000 pass, also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes most of a minute")
	}
	s := startServer(t)
	lossy := startProxy(t, s.addr())
	lossy.set(func(p *proxy) { p.loseEvery = 40 })
	for name, url := range map[string]string{"directly": s.url(), "with lost answers": lossy.url()} {
		t.Run(name, func(t *testing.T) {
			for round := range 20 {
				key := fmt.Sprint(name, round)
				var mu sync.Mutex
				admitted, lost := 0, 0
				var wg sync.WaitGroup
				for range 4 {
					child := exec.Command(os.Args[0])
					child.Env = append(os.Environ(), attackChild+"="+url, "TALLYSTICK_ATTACK_KEY="+key)
					child.Stderr = os.Stderr
					wg.Go(func() {
						out, err := child.Output()
						var a, l int
						if _, e := fmt.Sscan(string(out), &a, &l); err != nil || e != nil {
							t.Errorf("%v, %v: %q", err, e, out)
						}
						mu.Lock()
						defer mu.Unlock()
						admitted, lost = admitted+a, lost+l
					})
				}
				wg.Wait()
				require.Zero(t, lost, "every answer comes in the end")
				require.Equal(t, 1000, admitted)
				v, err := open(t, s.url()).Peek(t.Context(), exact.Call{Key: key, Cost: 1, Policy: compile(t, yearly(1000))})
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
