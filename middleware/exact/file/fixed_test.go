// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/kit"
)

// A file that could never be made smaller is refused when it is opened: where nothing may be made
// beside it, removed, or where it is mounted by itself. That a disk is full, or knows no links, is no
// such thing.
func TestFileThatCannotBeReplacedIsRefused(t *testing.T) {
	for _, tc := range []struct {
		op      string
		err     error
		refused bool
	}{
		{"create", syscall.EACCES, true},
		{"create", syscall.EROFS, true},
		{"remove", syscall.EPERM, true},
		{"name", syscall.EXDEV, true},
		{"create", syscall.ENOSPC, false},
		{"create", syscall.EDQUOT, false},
		{"name", syscall.EPERM, false},
		{"name", syscall.ENOTSUP, false},
		{"name", syscall.ENOSPC, false},
	} {
		t.Run(fmt.Sprint(tc.op, " ", tc.err), func(t *testing.T) {
			disk := newMemDisk()
			c := openOn(t, disk, 1<<30, file.Config{})
			require.NoError(t, c.Close())
			disk.fail = func(op, path string) error {
				if op == tc.op && strings.HasSuffix(path, ".next") {
					return tc.err
				}
				return nil
			}
			c, err := file.OpenOn(disk, memPath, 1<<30, file.Config{})
			if disk.fail = nil; tc.refused {
				require.ErrorIs(t, err, file.ErrFixed)
				require.ErrorIs(t, err, tc.err)
				require.ErrorContains(t, err, "give it a directory of its own")
				c, err = file.OpenOn(disk, memPath, 1<<30, file.Config{})
			}
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.Equal(t, []string{memPath}, disk.left())
		})
	}
}

// mountedBy is set in the process that TestFileThatIsMountedByItself starts in a mount namespace.
const mountedBy = "TALLYSTICK_TEST_MOUNTED"

// A real mount of the file by itself, as docker run -v counts.db:/counts.db makes.
func TestFileThatIsMountedByItself(t *testing.T) {
	if path := os.Getenv(mountedBy); path != "" {
		_, err := file.Open(path, file.Config{})
		require.ErrorIs(t, err, file.ErrFixed)
		return
	}
	dir := t.TempDir()
	there, mounted := filepath.Join(dir, "there"), filepath.Join(dir, "mounted")
	require.NoError(t, file.Create(there))
	require.NoError(t, os.WriteFile(mounted, nil, 0o600))
	mount := `mount --bind "$1" "$2" || exit 77; exec "$3" -test.run '^TestFileThatIsMountedByItself$'`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", there, mounted, os.Args[0])
	cmd.Env = append(os.Environ(), mountedBy+"="+mounted)
	said, err := cmd.CombinedOutput()
	if code := cmd.ProcessState; code == nil || code.ExitCode() == 77 || strings.Contains(string(said), "unshare") {
		kit.Unable(t, "no file can be mounted here: %s", said)
	}
	require.NoError(t, err, string(said))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}
