// SPDX-License-Identifier: Apache-2.0

//go:build unix

package policyfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
)

// What is no file is refused, whichever of the two it stands for: a pipe without a writer would
// have Reload wait for ever. Kubernetes' links to files are files.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	f := newFolder(t)
	path, ring := f.policies(contact), filepath.Join(f.dir, "ring")
	set := kit.Must(policyfile.Open(path, serving("contact")))(t)
	for _, name := range []string{path, ring} {
		kept := name + ".kept"
		require.NoError(t, os.Rename(name, kept))
		for what, put := range map[string]func() error{
			"a pipe":           func() error { return syscall.Mkfifo(name, 0o600) },
			"a link to a pipe": func() error { return os.Symlink("pipe", name) },
			"a folder":         func() error { return os.Mkdir(name, 0o700) },
			"a device":         func() error { return os.Symlink(os.DevNull, name) },
		} {
			_ = syscall.Mkfifo(filepath.Join(f.dir, "pipe"), 0o600)
			require.NoError(t, put())
			require.ErrorContains(t, policyfile.Reload(set), "not a regular file", what)
			require.NoError(t, os.Remove(name))
		}
		data := filepath.Join(f.dir, "..data")
		require.NoError(t, os.Symlink(".", data))
		require.NoError(t, os.Symlink(filepath.Join("..data", filepath.Base(kept)), name))
		require.NoError(t, policyfile.Reload(set), "a link to a link")
		require.NoError(t, os.Remove(data))
		require.NoError(t, os.Remove(name))
		require.NoError(t, os.Rename(kept, name))
	}
}
