// SPDX-License-Identifier: Apache-2.0

//go:build unix

package counters

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged is how to start what refuses to be root, which is given a directory.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("counters: there is no user but root")
}
