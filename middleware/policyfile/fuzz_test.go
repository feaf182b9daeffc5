// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/storeless"
)

func TestFuzzSeedsAreThere(t *testing.T) {
	files, err := os.ReadDir("testdata/fuzz/FuzzReload")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 18, "files that are right, and with a mistake of each kind")
}

// FuzzReload gives a running program any file: it takes the file and goes on, or says in which
// line of it what is wrong and goes on as before. What Check refuses is never taken, and the
// layout of the JSON makes no difference.
func FuzzReload(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := newFolder(t)
		p := serving("contact")
		p.Policies["contact"] = middleware.Config{MaxClients: 64}
		p.Counters = map[string]exact.Counter{"memory": memory.New(0, nil)}
		path := dir.policies(contact)
		set, err := policyfile.Open(path, p)
		require.NoError(t, err)
		limit := set.Middleware("contact")
		before := get(limit).Header().Get("RateLimit-Policy")

		dir.put("policies.json", string(text))
		shape := policyfile.Check(path, text)
		for problem := range storeless.ConfigErrors(shape) {
			require.Regexp(t, `^`+path+`:\d+(: .+)?$`, problem.Field)
		}
		if json.Valid(text) {
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, text))
			again := policyfile.Check(path, compact.Bytes())
			require.Equal(t, shape == nil, again == nil)
		} else {
			require.Error(t, shape)
		}

		err = policyfile.Reload(set)
		if seed := filepath.Base(t.Name()); strings.HasPrefix(seed, "right-") || strings.HasPrefix(seed, "wrong-") {
			require.Equal(t, strings.HasPrefix(seed, "right-"), err == nil, "%v", err)
		}
		require.False(t, shape != nil && err == nil)
		if err != nil {
			for problem := range storeless.ConfigErrors(err) {
				require.True(t, strings.HasPrefix(problem.Field, path+":"), problem.Field)
				require.NotContains(t, problem.Error(), secretText)
			}
			require.Equal(t, before, get(limit).Header().Get("RateLimit-Policy"))
			return
		}
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, get(limit).Code)
	})
}
