// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// pooled starts a PgBouncer before the shared server, which gives each transaction whichever of a
// few connections is free, and ends it with the test by its process id. It returns where.
func pooled(t *testing.T, of *server) (addr string) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin = "/usr/sbin/pgbouncer"; !exists(bin) {
			kit.Unable(t, "there is no pgbouncer (Debian: apt-get install pgbouncer)")
		}
	}
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		config := filepath.Join(of.dir, "pgbouncer-"+port+".ini")
		users := config + ".users"
		require.NoError(t, os.WriteFile(users, []byte(`"tallystick" ""`), 0o644))
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
`, of.port, port, users), 0o644))
		return of.command(bin, "-q", config)
	}).Addr()
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
			p := exactkit.PerYear(t, 1000)
			var counters []exact.Counter
			for range 3 { // instances
				store, _, _ := engine{"pgx", dsn + "&default_query_exec_mode=" + mode, sql.PostgreSQL}.open(t)
				counters = append(counters, exactkit.Count(t, store))
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
			v, err := exactkit.Count(t, store).Peek(t.Context(), exact.Call{Key: mode, Cost: 1, Policy: p})
			require.NoError(t, err)
			require.Equal(t, 1000-counted.Load(), v.Limits[0].Remaining)
		})
	}
}
