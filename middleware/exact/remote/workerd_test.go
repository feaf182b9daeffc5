// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"embed"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// scripts are embedded, so that a mutant is what runs.
//
//go:embed durable testdata/workerd/clocked.js testdata/workerd/clocked.capnp
var scripts embed.FS

// startWorkerd starts the runtime of Cloudflare's Workers, with durable/owner.js in it, by a configuration.
// counts is the folder that it keeps its counts in: storage in memory has no SQL.
func startWorkerd(t testing.TB, config, counts string) *exactkit.Server {
	t.Helper()
	found := kit.Must(filepath.Glob("testdata/workerd/node_modules/@cloudflare/workerd-*/bin/workerd"))(t)
	if len(found) == 0 {
		kit.Unable(t, "there is no workerd (.ci/need installs it, by npm)")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, scripts))
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		c := exec.Command(found[0], "serve", filepath.Join(dir, config), "--directory-path", "counts="+counts, "--socket-addr", "http=127.0.0.1:"+port)
		c.Env = append(os.Environ(), "SECRETS="+base64.StdEncoding.EncodeToString(secret("a"))+"\n"+base64.StdEncoding.EncodeToString(secret("b")))
		c.Stderr = os.Stderr
		return c
	})
}

// at is the URL of an owner at an address.
func at(addr string) string { return "http://" + addr + "/" }

const (
	clocked = "testdata/workerd/clocked.capnp"
	shipped = "durable/workerd.capnp"
)
