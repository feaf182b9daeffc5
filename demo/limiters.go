// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// limiters are the policies of one instance: as the program has them or, with -policy-file, as
// that file says.
type limiters struct {
	of   map[string]*middleware.Middleware
	file *policyfile.Set     // nil: no file
	own  []middleware.Config // the program's
}

func newLimiters(o options, secrets [][]byte, own []middleware.Config, watch *instruments) (*limiters, error) {
	l := &limiters{of: map[string]*middleware.Middleware{}, own: own}
	program := policyfile.Program{Policies: map[string]middleware.Config{}, Logger: o.log}
	for i := range own {
		own[i].Secrets, own[i].OnDecision = secrets, watch.hook(own[i].OnDecision)
		own[i].Instances = int64(o.instances)
		program.Policies[own[i].Policy] = own[i]
	}
	var errs []error
	if o.policyFile != "" {
		file, err := policyfile.Open(o.policyFile, program)
		if err != nil {
			return nil, err
		}
		l.file = file
	}
	for _, cfg := range own {
		if l.file != nil {
			l.of[cfg.Policy] = l.file.Middleware(cfg.Policy)
			continue
		}
		limit, err := middleware.New(cfg)
		errs = append(errs, err)
		l.of[cfg.Policy] = limit
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, limit := range l.of {
		if _, err := watch.Observe(limit); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// sorted returns the limiters by the names of their policies.
func (l *limiters) sorted() (all []*middleware.Middleware) {
	for _, policy := range slices.Sorted(maps.Keys(l.of)) {
		all = append(all, l.of[policy])
	}
	return all
}

// sign gives all limiters a ring of secrets, if they take it, or only asks whether they would.
func (l *limiters) sign(secrets [][]byte, ask bool) error {
	var errs []error
	for _, cfg := range l.own {
		cfg.Secrets = secrets
		do := l.of[cfg.Policy].Reconfigure
		if ask {
			do = l.of[cfg.Policy].Validate
		}
		errs = append(errs, do(cfg))
	}
	return errors.Join(errs...)
}
