// SPDX-License-Identifier: Apache-2.0

package pow

import _ "embed"

//go:embed solver.js
var solverJS string

// SolverJS returns the solver for browsers: the source of a JavaScript module that
// exports solve(challenge, options), and that is its own worker, so it must be
// served as a file of the page's origin. Its options are signal (an AbortSignal),
// onprogress(done, total, left), maxWork (2^28) and workers (4; 0 for none). It needs no
// WebAssembly, and no other permission than to be loaded.
func SolverJS() string { return solverJS }
