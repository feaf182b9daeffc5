// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A scenario is a promise: a configuration, requests in turn, and what must be seen of each.
type scenario struct {
	name  string
	setup setup
	steps []step
}

// A step is a request, after something has happened. A step with neither a status nor a number of requests sends none.
type step struct {
	after time.Duration // the clock moves on
	do    func(*scene)  // and something else happens

	times  int                // the request is sent; 0 is once
	every  time.Duration      // the clock moves on after each
	on     int                // to the instance of this number
	as     option             // it differs from POST / of 203.0.113.1
	nth    func(i int) option // and the i-th of them, from 0, by this too
	show   string             // it shows these tokens: names that steps have kept, or latest
	cookie string             // it shows these tokens by cookie
	hold   string             // it holds wait tickets of these names
	prove  string             // it shows the proofs, or those for the challenges, of these names; fresh is fetched for it

	want   int               // each is answered with this status; with 0, see passes
	passes int               // this number is answered 200
	fields fields            // each answer has these fields
	retry  int               // each has a Retry-After of this before jitter, in seconds
	reason middleware.Reason // each decision has this reason
	proof  middleware.Reason // and says this of the proof
	keep   string            // the token, the challenge and the ticket of the last answer have this name from now on
	see    all               // and more is seen of the last one
}

// Fields are names of fields, and their lines, joined. Anything is at least one line that is not planted; "" is none.
type fields map[string]string

const anything, latest, fresh = "*", "latest", "fresh"

// All are checks of what came of a request.
type all []func(*scene)

// A scene is a scenario that is being played.
type scene struct {
	*testing.T
	now     *clock
	ledger  *ledger // of exact routes
	cfg     middleware.Config
	handler http.HandlerFunc                // behind each instance; nil: writes "ok"
	around  func(http.Handler) http.Handler // each instance
	common  option                          // to all requests
	each    func(*scene, step)              // more that must be seen of each answer

	instances  []*site
	site       *site // that was asked last
	last       *http.Response
	body       string
	tokens     map[string]string
	tickets    map[string]string
	challenges map[string]pow.Challenge
	proofs     map[string]string // that are shown as they are
}

// A setup is the configuration of all instances of a scene.
type setup func(*scene) middleware.Config

type change = func(*middleware.Config)

// by is one of the configurations that tests share, with changes.
func by(of func(*clock) middleware.Config, changes ...change) setup {
	return func(s *scene) middleware.Config { return changed(of(s.now), changes...) }
}

// changed is a configuration with changes.
func changed(cfg middleware.Config, changes ...change) middleware.Config {
	for _, change := range changes {
		change(&cfg)
	}
	return cfg
}

func play(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.play(&scene{T: t}) })
	}
}

func (s scenario) play(in *scene) {
	in.now, in.tokens, in.tickets, in.challenges, in.proofs = new(clock), map[string]string{}, map[string]string{}, map[string]pow.Challenge{}, map[string]string{}
	in.ledger = newLedger(in.now)
	in.cfg = s.setup(in)
	for i := range s.steps {
		in.step(i+1, s.steps[i])
	}
}

// at is an instance, which begins when it is first asked.
func (s *scene) at(i int) *site {
	for len(s.instances) <= i {
		h := newSite(s, s.cfg)
		h.Spy.Serve = s.handler
		s.instances = append(s.instances, h)
	}
	s.site = s.instances[i]
	return s.site
}

func (s *scene) step(number int, is step) {
	asked, passed, done := 0, 0, false
	defer func() { // also where a check fails
		if !done {
			s.Logf("step %d, request %d, which came to %q %.500s", number, asked, s.last.Status, s.body)
		}
	}()
	s.last = new(http.Response)
	s.now.Advance(is.after)
	h := http.Handler(s.at(is.on))
	if s.around != nil {
		h = s.around(h)
	}
	if is.do != nil {
		is.do(s)
	}
	if is.times == 0 && is.want != 0 {
		is.times = 1
	}
	says := is.as != nil || is.nth != nil || is.show+is.cookie+is.hold+is.prove+is.keep != "" || is.reason+is.proof != "" || is.retry+is.passes+len(is.fields) > 0
	require.False(s, is.times == 0 && says, "a step without a status or a number sends nothing")
	for range is.times {
		s.site = s.instances[is.on]
		s.last = send(h, s.request(is, asked)...)
		asked++
		s.body = bodyOf(s, s.last)
		if s.last.StatusCode == http.StatusOK {
			passed++
		}
		s.answered(is)
		s.now.Advance(is.every)
	}
	if is.want == 0 {
		require.Equal(s, is.passes, passed, "of %d requests", is.times)
	}
	if is.keep != "" {
		s.remember(is.keep)
	}
	for _, check := range is.see {
		check(s)
	}
	done = true
}

func (s *scene) request(is step, i int) (options []option) {
	for _, o := range []option{s.common, is.as} {
		if o != nil {
			options = append(options, o)
		}
	}
	if is.nth != nil {
		options = append(options, is.nth(i))
	}
	for _, name := range strings.Fields(is.prove) {
		if name == fresh {
			s.challenges[fresh] = challengeIn(s, fetched(s.site, append(options, toFetch)...))
		}
		if proof, made := s.proofs[name]; made {
			options = append(options, proving(proof))
			continue
		}
		require.Contains(s, s.challenges, name, "a challenge that a step has kept")
		options = append(options, proving(solve(s, s.challenges[name])))
	}
	return append(options, showing(s.named(s.tokens, is.show)...), showingCookie(s.named(s.tokens, is.cookie)...), holding(s.named(s.tickets, is.hold)...))
}

func (s *scene) answered(is step) {
	if is.want != 0 {
		require.Equal(s, is.want, s.last.StatusCode)
	}
	for name, want := range is.fields {
		got := strings.Join(s.last.Header.Values(name), ", ")
		if want == anything {
			require.NotEmpty(s, got, name)
			require.NotContains(s, got, planted, name)
			continue
		}
		require.Equal(s, want, got, name)
	}
	if is.retry != 0 {
		handlers.RequireRetry(s, s.last, is.retry)
	}
	if is.reason != "" {
		require.Equal(s, is.reason, s.decision().Reason)
	}
	if is.proof != "" {
		require.Equal(s, is.proof, s.decision().Proof)
	}
	if tok := tokenIn(s.last); tok != "" {
		s.tokens[latest] = tok
	}
	if s.each != nil {
		s.each(s, is)
	}
}

// named are the values of these names.
func (s *scene) named(of map[string]string, names string) (values []string) {
	for _, name := range strings.Fields(names) {
		require.True(s, name == latest || of[name] != "", "no step has kept %s", name)
		if of[name] != "" {
			values = append(values, of[name])
		}
	}
	return values
}

func (s *scene) remember(name string) {
	delete(s.tokens, name)
	delete(s.challenges, name)
	delete(s.tickets, name)
	if s.last.Header.Get(middleware.ChallengeHeader) != "" {
		s.challenges[name] = challengeIn(s, s.answer())
	}
	if ticket := waitCookieIn(s, s.last); ticket != "" {
		s.tickets[name] = ticket
	}
	if tok := tokenIn(s.last); tok != "" {
		s.tokens[name] = tok
	} else if c := cookieIn(s.last); c != nil && s.tickets[name] == "" {
		s.tokens[name] = c.Value
	}
	require.NotEmpty(s, s.challenges[name].Text+s.tickets[name]+s.tokens[name], "nothing to keep")
}

func (s *scene) decision() middleware.Decision { return s.site.Decisions.Last() }

// answer is the last answer, with a body to be read again.
func (s *scene) answer() *http.Response {
	resp := *s.last
	resp.Body = io.NopCloser(strings.NewReader(s.body))
	return &resp
}
