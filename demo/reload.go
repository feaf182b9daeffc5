// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

// reload reads the secrets and the policies again, and has every limiter of every instance go on
// with them: what was counted stays, and no request waits. If anything is wrong with either,
// nothing changes, and each problem is logged in a line of its own.
func (b *instances) reload(o options) {
	var err error
	switch {
	case o.policyFile != "":
		var files []*policyfile.Set
		for _, site := range b.all {
			files = append(files, site.file)
		}
		err = policyfile.Reload(files...)
	case o.secretFile != "":
		err = b.sign(o)
	default:
		o.log.Warn("nothing to reload: there is neither a -policy-file nor a -secret-file")
		return
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			o.log.Error("not reloaded: nothing has changed", "problem", line)
		}
		return
	}
	o.log.Info("reloaded", b.counted.attr())
}

// sign reads the secrets again.
func (b *instances) sign(o options) error {
	secrets, err := loadSecrets(o)
	if err != nil {
		return err
	}
	if err := b.all[0].limiters.sign(secrets, true); err != nil { // all instances are alike
		return err
	}
	var errs []error
	for _, site := range b.all {
		errs = append(errs, site.limiters.sign(secrets, false))
	}
	return errors.Join(errs...)
}
