// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// runModule runs a module beside the solver, and returns what it says.
func runModule(t *testing.T, node, module, arg string) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "solver.mjs"), []byte(SolverJS()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.mjs"), []byte(module), 0o600))
	out, err := exec.CommandContext(t.Context(), node, filepath.Join(dir, "run.mjs"), arg).Output()
	require.NoError(t, err)
	return out
}

// A device that will hardly be in time stops early, and says how long it would have taken.
func TestBrowserSolverForesees(t *testing.T) {
	node := interpreter(t, "node")
	c, err := newIssuer(t, secretA).Issue(time.Now(), alice, MaxWork)
	require.NoError(t, err)
	out := runModule(t, node, runTooDear, c.Text)
	var got struct {
		Reason string
		Left   float64
	}
	require.NoError(t, json.Unmarshal(out, &got))
	require.Equal(t, "too-slow", got.Reason, "not expired, after a minute")
	require.Greater(t, time.Duration(got.Left)*time.Millisecond, c.TTL)
}

func TestBrowserSolverAgreesOnVectors(t *testing.T) {
	node := interpreter(t, "node")
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
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

	arg, err := json.Marshal(jobs)
	require.NoError(t, err)
	out := runModule(t, node, runSolver, string(arg))
	var got []string
	require.NoError(t, json.Unmarshal(out, &got))
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i], names[i])
	}
}
