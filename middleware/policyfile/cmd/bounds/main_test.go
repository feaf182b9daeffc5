// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command prints a table of each policy, or the mistakes of the file, each with its line.
func TestBounds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "policies.json")
	write := func(text string) (string, error) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		var out strings.Builder
		err := run([]string{name}, &out)
		return out.String(), err
	}
	out, err := write(`{"secrets": {"file": "/run/secrets/nowhere"}, "policies": {
		"contact": {"limits": [{"quota": 5, "window": "1m"}], "instances": 3, "limitsFor": {"life": "1m"}},
		"api": {"limits": [{"quota": 7, "window": "1h"}], "instances": 2, "exact": {"counter": "shared", "outage": "fail-open"}}}}`)
	require.NoError(t, err, "neither the program nor the secrets are needed")
	require.Equal(t, `api, N = 2                                         7 in 1 h
whatever it sends                                         7
the same, and the counter does not answer                13
holds a whole IPv6 /48, each /64 a client           458,752

contact, N = 3                                     5 in 1 min
echoes its newest token                                     5
drops its tokens, or sends requests at once                15
holds a whole IPv6 /48                                    960

`, out)

	out, err = write("{\"policies\": {\"contact\": {\n\"limits\": [{\"quota\": 5, \"window\": \"1m\"}],\n\"challenge\": {\"passTime\": \"1s\", \"work\": 1}}, \"x\": {\"limits\": []}}}")
	require.ErrorContains(t, err, name+":3: policies.contact.challenge.passTime: must be whole seconds, from 1 min to 24 h")
	require.ErrorContains(t, err, name+":3: policies.contact.challenge.work: must be at least 16, not 1")
	require.ErrorContains(t, err, "policies.x.limits")
	require.Empty(t, out)
	require.ErrorContains(t, run(nil, os.Stdout), "usage")
	require.ErrorContains(t, run([]string{"-h"}, os.Stdout), "usage")
	require.ErrorContains(t, run([]string{name + ".gone"}, os.Stdout), ".gone")
}
