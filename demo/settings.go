package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

//go:embed tiers.json
var tiersJSON []byte

// settings are what an operator may change while the demo runs: by SIGHUP, which
// has it read its files again.
type settings struct {
	secrets [][]byte
	tiers   map[string][]middleware.Limit // of /api/quote
	forms   map[string][]middleware.Limit // by policy; those of the program where there are none
}

// limits returns the limits of a form.
func (s settings) limits(policy string, otherwise []middleware.Limit) []middleware.Limit {
	if limits, ok := s.forms[policy]; ok {
		return limits
	}
	return otherwise
}

// loadSettings reads both files. It reports what is wrong in either.
func loadSettings(o options) (settings, error) {
	secrets, badSecrets := loadSecrets(o)
	name, text := "tiers.json", tiersJSON
	var badFile error
	if o.policyFile != "" {
		name = o.policyFile
		text, badFile = os.ReadFile(name)
	}
	now := settings{secrets: secrets}
	if badFile == nil {
		badFile = now.read(name, text)
	}
	if err := errors.Join(badSecrets, badFile); err != nil {
		return settings{}, err
	}
	return now, nil
}

// read takes a policy file: a set of limits for each tier of /api/quote, which must
// all be there, and for each form that is not to have those of the program.
func (s *settings) read(name string, text []byte) error {
	sets, err := policyfile.Tiers(name, text)
	if err != nil {
		return err
	}
	s.tiers, s.forms = map[string][]middleware.Limit{}, map[string][]middleware.Limit{}
	for _, form := range []string{"contact", "newsletter", "signup", "feedback", showroomPolicy} {
		if limits, ok := sets[form]; ok {
			s.forms[form] = limits
			delete(sets, form)
		}
	}
	var problems []error
	for _, tier := range []string{"free", "researcher", "compliance", "vendor"} {
		if sets[tier] == nil {
			problems = append(problems, fmt.Errorf("%s: tiers.%s: is missing", name, tier))
		}
		s.tiers[tier] = sets[tier]
		delete(sets, tier)
	}
	for other := range sets {
		problems = append(problems, fmt.Errorf("%s: tiers.%s: is neither a tier nor a form", name, other))
	}
	return errors.Join(problems...)
}

// files names what the settings come from.
func (o options) files() string {
	var names []string
	if o.secretFile != "" {
		names = append(names, "-secret-file "+o.secretFile)
	}
	if o.policyFile != "" {
		names = append(names, "-policy-file "+o.policyFile)
	}
	return strings.Join(names, ", ")
}
