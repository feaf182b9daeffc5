// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The reference solvers in other languages, and a verifier in Python that shares
// no line with this package. Without an interpreter these tests are skipped
// aloud.

var interpreters = map[string]string{"python3": ".py", "node": ".js"}

func interpreter(t *testing.T, name string) string {
	t.Helper()
	kit.OnlyWhole(t, "runs other interpreters")
	path, err := exec.LookPath(name)
	if err != nil {
		kit.Unable(t, "there is no %s", name)
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
				kit.Must(is.Verify(epoch, alice, proof))(t)
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

// The solver for browsers needs nothing but the language, so that it runs in Node.js
// too, with no browser around. What is run is what [SolverJS] returns; package
// middleware serves the same bytes.

const runSolver = `
import { solve } from "./solver.mjs";
const answers = [];
for (const { challenge, maxWork } of JSON.parse(process.argv[2])) {
  answers.push(await solve(challenge, { workers: 0, maxWork }).catch((error) => error.reason));
}
console.log(JSON.stringify(answers));
`

const runTooDear = `
import { solve } from "./solver.mjs";
let left;
const onprogress = (done, total, ms) => { left ??= ms; };
const reason = await solve(process.argv[2], { workers: 0, maxWork: 2**32, onprogress }).catch((error) => error.reason);
console.log(JSON.stringify({ reason, left }));
`

// runBadStart solves by a clock of its own: in the first four seconds the device does a thousandth
// of what it can do later.
const runBadStart = `
import { solve } from "./solver.mjs";
let now = 0;
performance.now = () => now += now < 4000 ? 100 : 0.1;
console.log(JSON.stringify(await solve(process.argv[2], { workers: 0 }).catch((error) => error.reason)));
`

// runModule runs a module beside the solver, and returns what it says.
func runModule(t *testing.T, node, module, arg string) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "solver.mjs"), []byte(SolverJS()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.mjs"), []byte(module), 0o600))
	return kit.Must(exec.CommandContext(t.Context(), node, filepath.Join(dir, "run.mjs"), arg).Output())(t)
}

// A device that will hardly be in time stops early, and says how long it would have taken.
func TestBrowserSolverForesees(t *testing.T) {
	node := interpreter(t, "node")
	c := kit.Must(newIssuer(t, secretA).Issue(time.Now(), alice, MaxWork))(t)
	out := runModule(t, node, runTooDear, c.Text)
	var got struct {
		Reason string
		Left   float64
	}
	require.NoError(t, json.Unmarshal(out, &got))
	require.Equal(t, "too-slow", got.Reason, "not expired, after a minute")
	require.Greater(t, time.Duration(got.Left)*time.Millisecond, c.TTL)
}

// A device that has much else to do at first, such as to load a page, is not given up for that.
func TestBrowserSolverForgivesABadStart(t *testing.T) {
	node := interpreter(t, "node")
	issuer := newIssuer(t, secretA)
	c, err := issuer.Issue(time.Now(), alice, 1<<18)
	require.NoError(t, err)
	var proof string
	require.NoError(t, json.Unmarshal(runModule(t, node, runBadStart, c.Text), &proof))
	_, err = issuer.Verify(time.Now(), alice, proof)
	require.NoError(t, err, proof)
}

func TestBrowserSolverAgreesOnVectors(t *testing.T) {
	node := interpreter(t, "node")
	text := kit.Must(os.ReadFile("testdata/vectors.json"))(t)
	var all vectors
	require.NoError(t, json.Unmarshal(text, &all))

	type job struct {
		Challenge string `json:"challenge"`
		MaxWork   uint64 `json:"maxWork,omitempty"`
	}
	var jobs []job
	var names, want []string
	for _, v := range all.Issue {
		if v.Work <= 1<<20 { // or it takes minutes
			jobs, names, want = append(jobs, job{v.Header, 0}), append(names, v.Name), append(want, v.Proof)
		}
	}
	for _, v := range all.Solve {
		expected := v.Want
		if v.Want == "valid" {
			expected = v.Proof
		}
		jobs, names, want = append(jobs, job{v.Challenge, v.MaxWork}), append(names, v.Name), append(want, expected)
	}
	require.Greater(t, len(jobs), 10)

	arg := kit.Must(json.Marshal(jobs))(t)
	out := runModule(t, node, runSolver, string(arg))
	var got []string
	require.NoError(t, json.Unmarshal(out, &got))
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i], names[i])
	}
}
