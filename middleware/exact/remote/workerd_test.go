// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bufio"
	"embed"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// scripts are embedded, so that a mutant is what runs.
//
//go:embed durable testdata/workerd/clocked.js testdata/workerd/clocked.capnp
var scripts embed.FS

// A workerd is the runtime of Cloudflare's Workers, with durable/owner.js in it.
type workerd struct {
	t      testing.TB
	args   []string
	listen string // 127.0.0.1:0 until it has a port
	cmd    *exec.Cmd
}

// startWorkerd starts the owner of a configuration. counts is the folder that it keeps its
// counts in: storage in memory has no SQL.
func startWorkerd(t testing.TB, config, counts string) *workerd {
	t.Helper()
	found, err := filepath.Glob("testdata/workerd/node_modules/@cloudflare/workerd-*/bin/workerd")
	require.NoError(t, err)
	if len(found) == 0 {
		testkit.Unable(t, "there is no workerd (.ci/need installs it, by npm)")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, scripts))
	w := &workerd{t: t, args: []string{found[0], "serve", filepath.Join(dir, config), "--directory-path", "counts=" + counts}, listen: "127.0.0.1:0"}
	w.start()
	t.Cleanup(w.kill)
	return w
}

func (w *workerd) start() {
	w.t.Helper()
	out, in, err := os.Pipe()
	require.NoError(w.t, err)
	defer in.Close()
	w.cmd = exec.Command(w.args[0], append(w.args[1:], "--socket-addr", "http="+w.listen, "--control-fd", "3")...)
	w.cmd.ExtraFiles = []*os.File{in}
	w.cmd.Env = append(os.Environ(), "SECRETS="+base64.StdEncoding.EncodeToString(secret("a"))+"\n"+base64.StdEncoding.EncodeToString(secret("b")))
	w.cmd.Stderr = os.Stderr
	require.NoError(w.t, w.cmd.Start())
	_ = in.Close()
	defer out.Close()
	line, err := bufio.NewReader(out).ReadBytes('\n') // which ends when the process does
	require.NoError(w.t, err, "it says where it listens")
	var said struct{ Port int }
	require.NoError(w.t, json.Unmarshal(line, &said))
	w.listen = "127.0.0.1:" + strconv.Itoa(said.Port)
}

func (w *workerd) process() *os.Process { return w.cmd.Process }

func (w *workerd) url() string { return "http://" + w.listen + "/" }

func (w *workerd) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

const (
	clocked = "testdata/workerd/clocked.capnp"
	shipped = "durable/workerd.capnp"
)
