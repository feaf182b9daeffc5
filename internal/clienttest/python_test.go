// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/proof/kit"
)

// runPython runs the client of testdata, after its text was changed: old and new in turn.
func runPython(t *testing.T, script *clienttest.Server, changes ...string) clienttest.Report {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		kit.Unable(t, "there is no python3: %v", err)
	}
	source, err := os.ReadFile("testdata/polite.py")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "client.py")
	require.NoError(t, os.WriteFile(file, []byte(kit.Replace(t, string(source), changes...)), 0o600))
	solver, err := filepath.Abs("../../pow/testdata")
	require.NoError(t, err)
	server := httptest.NewServer(script)
	defer server.Close()
	cmd := exec.Command(python, "-B", file, solver)
	cmd.Env = append(os.Environ(), "CLIENTTEST_URL="+server.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return script.Report()
}

// A client that shares no code with this repository, in another language.
func TestPythonClientPasses(t *testing.T) {
	report := runPython(t, newServer(t))
	require.Len(t, report.Cases, report.Passed, "%s", report)
}

// And when it is wrong, it is found out.
func TestWrongPythonClientsAreFoundOut(t *testing.T) {
	const waits = "            time.sleep(wait)\n"
	for name, test := range map[string]struct {
		changes []string
		code    string
		in      string
	}{
		"does not wait":    {[]string{waits, ""}, "too-early", "wait"},
		"drops its tokens": {[]string{waits, "            return response\n", "            kept[key(token)] = token\n", ""}, "token-dropped", "echo"},
		"keeps one token":  {[]string{waits, "            return response\n", `claims.get("fam") or claims.get("sub")`, `claims.get("fam", "")`}, "token-stale", "two-things"},
		"works for ever":   {[]string{waits, "            return response\n", "MAX_PROOFS, MAX_SENDS = 1 << 24, 30, 3, 6", "MAX_PROOFS, MAX_SENDS = 1 << 24, 30, 9, 9"}, "endless", "never-accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := middlewaretest.NewClock()
			clock.Advance(time.Since(clock.Now())) // it stands still now: no machine is too busy to be too early
			script, err := clienttest.New(clock.Now)
			require.NoError(t, err)
			report := runPython(t, script, test.changes...)
			found := map[string]bool{}
			for _, c := range report.Cases {
				for _, f := range c.Faults {
					require.Equal(t, test.code, f.Code, "%s", report)
					found[c.Case] = true
				}
			}
			require.True(t, found[test.in], "%s", report)
		})
	}
}
