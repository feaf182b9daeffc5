// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// The reference solvers in other languages, and a verifier in Python that shares
// no line with this package. Without an interpreter these tests are skipped
// aloud.

var interpreters = map[string]string{"python3": ".py", "node": ".js"}

func interpreter(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no other interpreters")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		testkit.Unable(t, "there is no %s", name)
	}
	return path
}

// script runs a file of testdata and returns its output and exit status.
func script(t *testing.T, path, file string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, append([]string{"testdata/" + file}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	t.Log(trouble.String())
	return strings.TrimSuffix(out.String(), "\n"), cmd.ProcessState.ExitCode()
}

func TestOtherLanguagesAgreeOnVectors(t *testing.T) {
	for name, suffix := range interpreters {
		t.Run(name, func(t *testing.T) {
			out, status := script(t, interpreter(t, name), "check"+suffix, "testdata/vectors.json")
			require.Zero(t, status, out)
			require.Contains(t, out, " 0 differ")
		})
	}
}

func TestOtherLanguagesSolve(t *testing.T) {
	is := newIssuer(t, secretA)
	c := issued(t, is, 1<<14)
	for name, suffix := range interpreters {
		t.Run(name, func(t *testing.T) {
			path := interpreter(t, name)
			for _, value := range []string{c.Text, c.Header()} {
				proof, status := script(t, path, "solve"+suffix, value)
				require.Zero(t, status)
				_, err := is.Verify(epoch, alice, proof)
				require.NoError(t, err)
			}
			for _, e := range []struct {
				args []string
				want int
			}{
				{[]string{spoilt(t, c.Text, 0)}, 1},
				{[]string{}, 2},
				{[]string{c.Text[1:]}, 2},
				{[]string{c.Text, "16383"}, 3},
			} {
				out, status := script(t, path, "solve"+suffix, e.args...)
				require.Equal(t, e.want, status)
				require.Empty(t, out)
			}
		})
	}
}
