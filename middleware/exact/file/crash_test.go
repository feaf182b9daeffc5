package file_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// crashes is how often the counter is killed.
func crashes() int {
	if testkit.Long() { // as "make long" does
		return 100
	}
	return 5
}

const (
	crashKeys  = 40
	crashQuota = 200
	crashChild = "TALLYSTICK_CRASH_FILE"
)

// TestMain makes this test binary the process that is killed, when it is told so.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		fmt.Println("failed:", countUntilKilled(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// countUntilKilled counts from 16 goroutines, and says of each admitted call, after it
// was answered, which key it was for.
func countUntilKilled(path string) error {
	c, err := file.Open(path, file.Config{})
	if err != nil {
		return err
	}
	p, err := exact.Compile("api", crashLimits)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range 16 {
		go func() {
			for {
				key := rand.IntN(1 + rand.IntN(crashKeys)) // some reach their limit, some do not
				v, err := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)})
				if err != nil {
					errs <- err
					return
				}
				if v.Admitted {
					fmt.Printf("%d\n", key) // one write: whole, or not at all
				}
			}
		}()
	}
	return <-errs
}

var crashLimits = []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: crashQuota, Window: 365 * 24 * time.Hour}}

// TestKilled kills the process at random moments, and opens the file again each time:
// whatever was answered is counted, and never more pass than the limit.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	acknowledged := make([]int, crashKeys)
	p := compile(t, crashLimits...)
	for n := range crashes() {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashChild+"="+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		timer := time.AfterFunc(time.Duration(rand.IntN(int(200*time.Millisecond))), func() { _ = child.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if acks := lines.Text(); strings.HasPrefix(acks, "failed") {
				require.Fail(t, acks)
			} else {
				key, err := strconv.Atoi(acks)
				require.NoError(t, err)
				acknowledged[key]++
			}
			if rand.IntN(150) == 0 {
				_ = child.Process.Kill() // in the middle of work, for certain
			}
		}
		require.Error(t, child.Wait(), "it was killed")
		timer.Stop()

		c, err := file.Open(path, file.Config{})
		require.NoError(t, err, "crash %d: the file opens", n)
		total := 0
		for key, acks := range acknowledged {
			v, err := c.Peek(t.Context(), exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p})
			require.NoError(t, err)
			counted := crashQuota - int(v.Limits[0].Remaining)
			require.GreaterOrEqual(t, counted, acks, "crash %d: an acknowledged count is lost", n)
			require.LessOrEqual(t, acks, crashQuota)
			total += counted - acks
		}
		require.LessOrEqual(t, total, 16*(n+1), "crash %d: more is counted than was under way", n)
		require.NoError(t, c.Close())
	}
	t.Logf("%d acknowledged, in %d lives", sum(acknowledged), crashes())
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
