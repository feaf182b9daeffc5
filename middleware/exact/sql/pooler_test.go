// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// pooled starts a PgBouncer before the shared server, which gives each transaction whichever of a
// few connections is free, and ends it with the test by its process id. It returns its port.
func pooled(t *testing.T, of *server) (port int) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin = "/usr/sbin/pgbouncer"; !exists(bin) {
			testkit.Unable(t, "there is no pgbouncer (Debian: apt-get install pgbouncer)")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port = l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	config := filepath.Join(of.dir, fmt.Sprintf("pgbouncer-%d.ini", port))
	users := config + ".users"
	require.NoError(t, os.WriteFile(users, []byte(`"tallystick" ""`), 0o644))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
`, of.port, port, users), 0o644))
	cmd := of.command(bin, "-q", config)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patient, 5*time.Millisecond, "it answers")
	return port
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Behind a pooler each statement may be on another connection than the one before, where what a
// driver has prepared is not. By the modes of pgx that the package names all is counted there; by its
// default what fails says why, and is not counted. A PgBouncer from 1.21 on follows that too.
func TestBehindAPooler(t *testing.T) {
	config, err := pgx.ParseConfig(database(t))
	require.NoError(t, err)
	dsn := dsn(pooled(t, shared), config.Database)
	for mode, all := range map[string]bool{"exec": true, "cache_describe": true, "simple_protocol": true, "cache_statement": false} {
		t.Run(mode, func(t *testing.T) {
			p := compile(t, yearly(1000))
			var counters []exact.Counter
			for range 3 { // instances
				store, _, _ := engine{"pgx", dsn + "&default_query_exec_mode=" + mode, sql.PostgreSQL}.open(t)
				counters = append(counters, count(t, store))
			}
			var wg sync.WaitGroup
			var counted atomic.Int64
			for i := range 12 {
				wg.Go(func() {
					for n := range 30 {
						_, err := counters[i%3].Take(context.Background(), exact.Call{Key: mode, Cost: 1, Policy: p, ID: fmt.Sprint(i, n)})
						switch {
						case err == nil:
							counted.Add(1)
						case !errors.Is(err, exact.ErrContended) && (all || !errors.Is(err, sql.ErrPooled)):
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			t.Logf("%d of 360 calls are counted", counted.Load())
			store, _, _ := engine{"pgx", shared.dsn(config.Database), sql.PostgreSQL}.open(t)
			v, err := count(t, store).Peek(t.Context(), exact.Call{Key: mode, Cost: 1, Policy: p})
			require.NoError(t, err)
			require.Equal(t, 1000-counted.Load(), v.Limits[0].Remaining)
		})
	}
}
