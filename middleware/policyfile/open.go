// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Program holds what a file cannot.
type Program struct {
	// Policies are the program's policies, by name. The file must have exactly these. Each
	// Config holds the fields that are code, such as Cost, Skip, PageHandler or OnDecision,
	// and any others: the file overrides them field by field, and lists as a whole. The
	// file's "identity" does not override an Identity of the program. Required.
	Policies map[string]middleware.Config

	// Counters are exact counters, by the names that "exact.counter" may have.
	Counters map[string]exact.Counter

	// Logger is told of secrets that every user of the machine may read, and of the outcome of
	// each Reload. Policies without a logger use it. Default: slog.Default().
	Logger *slog.Logger
}

// A Set holds the middlewares that a file configures. Make it with [Open]. It is safe for
// concurrent use.
type Set struct {
	path    string
	program Program
	limits  map[string]*middleware.Middleware
	mounted map[string]string // Challenge.Path, by policy
	last    atomic.Pointer[outcome]
}

type outcome struct {
	success time.Time // the last one
	err     error
}

// LastReload returns when [Open] or [Reload] last succeeded, and the error of the last Reload, or
// nil.
func (s *Set) LastReload() (success time.Time, err error) {
	last := s.last.Load()
	return last.success, last.err
}

// Format writes only the file's name, for every verb: a Set may hold secrets.
func (s *Set) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "policyfile.Set(%s)", s.path) }

// Middleware returns the middleware of a policy. It stays the same when the file is read
// again. It panics if the policy is not one of Program.Policies.
func (s *Set) Middleware(policy string) *middleware.Middleware {
	m, ok := s.limits[policy]
	if !ok {
		panic(fmt.Sprintf("policyfile: %q is none of Program.Policies", policy))
	}
	return m
}

// Check reports all mistakes that the schema finds in a file: JSON, keys, and the types and
// bounds of values. It needs neither program nor secrets. [Open] checks what values mean
// together. Each problem is a [storeless.ConfigError] whose Field begins with the name, a
// colon, the line, and a colon.
func Check(name string, text []byte) error {
	return readShape(name, text, new(fileKeys)).err()
}

// Open reads a file and makes the middlewares of a program, or reports all mistakes: of the
// file, of the secrets that it names, of each policy by [middleware.New] where all of it can be
// read, and of policies that only one of file and program has. Each problem is a [storeless.ConfigError] whose
// Field is the file's path, the line, and the path of the value in it, such as
// "policies.json:7: policies.contact.limits[1].quota". No problem shows a secret. At most
// 1000 are told. A file of more than 4 MiB is an error.
func Open(path string, p Program) (*Set, error) {
	p.Policies, p.Counters = maps.Clone(p.Policies), maps.Clone(p.Counters)
	p.Logger = cmp.Or(p.Logger, slog.Default())
	s := &Set{path: path, program: p, limits: map[string]*middleware.Middleware{}, mounted: map[string]string{}}
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	configs := f.configs(s)
	for _, c := range configs {
		f.addOf(c, new(middleware.Middleware).Validate(c.Config))
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	for _, c := range configs { // now that all serve: New logs what each is
		if s.limits[c.Policy], err = middleware.New(c.Config); err != nil {
			return nil, err
		}
		if c.Challenge != nil {
			s.mounted[c.Policy] = c.Challenge.Path
		}
	}
	f.warn(s)
	s.last.Store(&outcome{success: time.Now()})
	return s, nil
}

type change struct {
	*middleware.Middleware
	to middleware.Config
}

// Reload reads the files of sets again, each once, and reconfigures all their middlewares by
// [middleware.Middleware.Reconfigure]: counts and prices stay. The program calls it, such as
// at SIGHUP, one call at a time. If any policy of any set is wrong, nothing changes, and all
// mistakes are reported, as by Open. Requests under way keep their configuration, and no
// request sees a part of each. The log of each set and [Set.LastReload] tell the outcome.
//
// The set of policies, maxClients, and challenge.path, where the program has mounted the
// endpoints, cannot change. Neither can environment variables of a running process: keep
// secrets that rotate in a file.
func Reload(sets ...*Set) error {
	err := reload(sets)
	for _, s := range sets {
		s.note(err)
	}
	return err
}

// note logs the outcome of a reload.
func (s *Set) note(err error) {
	const page = "https://github.com/tallystick/tallystick/blob/main/docs/policyfile.md#changes-while-serving"
	if err != nil {
		s.last.Store(&outcome{s.last.Load().success, err})
		s.program.Logger.Error("tallystick: the policy file is not taken: what was read before stays in force", "code", "reload-failed", "file", s.path, "error", err, "remedy", "mend what error names, and reload again", "page", page)
		return
	}
	s.last.Store(&outcome{success: time.Now()})
	s.program.Logger.Info("tallystick: the policy file is in force as it is now", "code", "reloaded", "file", s.path, "remedy", "do nothing", "page", page)
}

func reload(sets []*Set) error {
	files := map[string]*file{}
	var errs []error
	var changes []change
	for _, s := range sets {
		f, seen := files[s.path]
		if !seen {
			var err error
			f, err = read(s.path)
			errs = append(errs, err)
			files[s.path] = f
		}
		if f == nil { // there is none
			continue
		}
		for _, c := range f.configs(s) {
			m := s.limits[c.Policy]
			f.addOf(c, m.Validate(c.Config))
			if c.Challenge != nil && c.Challenge.Path != "" && c.Challenge.Path != s.mounted[c.Policy] {
				f.add(c.at+".challenge.path", "cannot change while serving: the endpoints are mounted elsewhere, or not at all")
			}
			changes = append(changes, change{m, c.Config})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if f := files[path]; f != nil {
			errs = append(errs, f.err())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range changes {
		// It has been validated, and fails only if the program reconfigures meanwhile itself.
		errs = append(errs, c.Reconfigure(c.to))
	}
	for _, s := range sets {
		files[s.path].warn(s)
	}
	return errors.Join(errs...)
}

// file is a file that was read.
type file struct {
	*problems
	keys    fileKeys
	secrets secretReader
}

// read reads the file at path. Its problems are in the file; the error is that there is none.
func read(path string) (*file, error) {
	text, _, err := readBounded(path, mostText)
	if errors.Is(err, errLarge) {
		return nil, &storeless.ConfigError{Field: path, Problem: err.Error()}
	}
	if err != nil {
		return nil, err // names the path
	}
	f := new(file)
	f.problems = readShape(path, text, &f.keys)
	f.secrets = secretReader{problems: f.problems, folder: filepath.Dir(path), rings: map[string][][]byte{}, from: map[string]string{}}
	return f, nil
}

// A config is a Config, with the places in the file of itself and its shared parts.
type config struct {
	middleware.Config
	at                string
	secrets, identity string
}

// configs returns the Config of each policy that could be read, and reports what is wrong
// before middleware is asked.
func (f *file) configs(s *Set) []config {
	if f.more > 0 { // not all is known of what is not there
		return nil
	}
	serves := slices.Sorted(maps.Keys(s.program.Policies))
	for _, name := range slices.Sorted(maps.Keys(f.keys.Policies)) {
		if !slices.Contains(serves, name) {
			f.add(join("policies", name), "is no policy of this program, which has %s", strings.Join(serves, ", "))
		}
	}
	var all []config
	for _, name := range serves {
		at := join("policies", name)
		keys, there := f.keys.Policies[name]
		switch {
		case there && !f.unreadBelow(at):
			all = append(all, f.config(s, name, at, keys))
		case keys != nil: // whatever else is wrong there
			f.shared(&config{secrets: at + ".secrets", identity: at + ".identity"}, keys, s.program.Policies[name].Identity != nil)
		case !there && f.keys.Policies != nil && !f.below(at):
			f.add(at, "is missing: the program serves it")
		}
	}
	return all
}

// config returns the Config of one policy.
func (f *file) config(s *Set, name, at string, keys *policyKeys) config {
	base := s.program.Policies[name]
	own := base.Identity != nil
	c := config{Config: configOf(name, keys, base), at: at, secrets: at + ".secrets", identity: at + ".identity"}
	c.Logger = cmp.Or(c.Logger, s.program.Logger)
	f.shared(&c, keys, own)

	if keys.Exact != nil && keys.Exact.Counter != nil && !f.below(at+".exact.counter") {
		counter, ok := s.program.Counters[*keys.Exact.Counter]
		if !ok {
			names := slices.Sorted(maps.Keys(s.program.Counters))
			f.add(at+".exact.counter", "is no counter of this program, which has %s", cmp.Or(strings.Join(names, ", "), "none"))
		}
		c.Exact.Counter = counter
	}
	return c
}

// shared fills in secrets and identity, from the policy or from the whole file.
// The program may have its own identity.
func (f *file) shared(c *config, keys *policyKeys, own bool) {
	secrets := keys.Secrets
	if secrets == nil && f.keys.Secrets != nil {
		secrets, c.secrets = f.keys.Secrets, "secrets"
	}
	if secrets != nil && !f.below(c.secrets) {
		c.Secrets = f.secrets.read(secrets, c.secrets)
	}

	identity := keys.Identity
	if identity == nil && f.keys.Identity != nil && !own {
		identity, c.identity = f.keys.Identity, "identity"
	}
	switch {
	case identity == nil || f.below(c.identity):
	case own:
		f.add(c.identity, "must be left out: the program tells by code of its own who is asking")
	default:
		c.Identity = identityOf(identity, c.identity, f.problems)
	}
}

// addOf reports what middleware says of a Config.
func (f *file) addOf(c config, err error) {
	for e := range storeless.ConfigErrors(err) {
		path := pathOf(e.Field)
		if rest, ok := strings.CutPrefix(path, "secrets"); ok {
			path = c.secrets + rest
			if f.below(c.secrets) { // which is why there are none
				continue
			}
			if from := f.secrets.from[c.secrets]; from != "" {
				f.add(path, "%s (in %s)", spelled(e.Problem), from)
				continue
			}
		} else {
			path = c.at + "." + path
			if f.inShape(path) || path == c.at+".exact.counter" && f.below(path) || path == c.at+".limitsFor" && f.below(c.identity) {
				continue
			}
		}
		f.add(path, "%s", spelled(e.Problem))
	}
}

// warn tells the log of s what is not wrong.
func (f *file) warn(s *Set) {
	for _, path := range f.secrets.open {
		s.program.Logger.Warn("tallystick: everybody on this machine may read the secrets", "code", "secrets-readable", "file", s.path, "key", path,
			"remedy", "chmod 0400, or the mode with which they are mounted", "page", "https://github.com/tallystick/tallystick/blob/main/docs/policyfile.md#secrets")
	}
}
