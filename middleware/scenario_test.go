// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
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

// What rows are made of: configurations, checks of what came of the last request, and what happens before one.

func limiting(changes ...change) setup { return by(contact, changes...) }

// working asks for work, and byCounter asks the ledger of the scene.
func working(mode middleware.Mode, changes ...change) setup {
	return by(func(c *clock) middleware.Config { return challenging(c, mode) }, changes...)
}

// roomed has a waiting room.
func roomed(mode middleware.Mode, changes ...change) setup {
	return by(func(c *clock) middleware.Config { return waiting(c, mode) }, changes...)
}

func byCounter(changes ...change) setup {
	return func(s *scene) middleware.Config {
		return by(func(c *clock) middleware.Config { return paid(c, s.ledger) }, changes...)(s)
	}
}

// serving has a setup with a handler of its own.
func (f setup) serving(h http.HandlerFunc) setup {
	return func(s *scene) middleware.Config {
		s.handler = h
		return f(s)
	}
}

func own(s *scene)    { require.True(s, s.decision().Own) }
func shared(s *scene) { require.False(s, s.decision().Own) }

func noChallenge(s *scene) { requireNoChallenge(s, s.answer()) }

// work is what the answer's challenge asks for.
func work(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, challengeIn(s, s.answer()).Work) }
}

// calls are those that the counter has been asked by now, charged is what it has counted, and passed how often the handler was reached.
func calls(n int) func(*scene) { return func(s *scene) { require.Equal(s, n, s.ledger.Count()) } }
func charged(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, s.ledger.Charged) }
}
func passed(n int) func(*scene) {
	return func(s *scene) { require.EqualValues(s, n, s.site.Spy.Calls.Load()) }
}

// told are the codes of the log by now, and says is a part of the body.
func told(codes ...string) func(*scene) {
	return func(s *scene) { require.Equal(s, codes, codesIn(s.site.Log.Lines())) }
}

func says(text string) func(*scene)  { return func(s *scene) { require.Contains(s, s.body, text) } }
func lacks(text string) func(*scene) { return func(s *scene) { require.NotContains(s, s.body, text) } }

// because is the reason that a refusal's body names.
func because(reason middleware.Reason) func(*scene) {
	return func(s *scene) { require.Equal(s, reason, problemIn(s, s.answer()).Reason) }
}

// typed is the type of a refusal's body.
func typed(as string) func(*scene) {
	return func(s *scene) { require.Equal(s, as, problemIn(s, s.answer()).Type) }
}

// tells is how many lines of the log have a code.
func tells(code string, n int) func(*scene) {
	return func(s *scene) { require.Equal(s, n, s.site.Log.Count("code="+code+" "), code) }
}

func waitsAtMost(d time.Duration) func(*scene) {
	return func(s *scene) { require.LessOrEqual(s, retryAfter(s, s.last), d) }
}

// fails is what the counter does from now on before it counts a call; nil: nothing.
func fails(fault func(context.Context, int) error) func(*scene) {
	return func(s *scene) { s.ledger.Fault = fault }
}

// would is what shadow mode lets pass: the status that it would have had; 0 is none.
func would(status int) func(*scene) {
	return func(s *scene) {
		require.Empty(s, s.last.Header.Values("Retry-After"))
		d := s.decision()
		require.Equal(s, []any{true, status == 0, status}, []any{d.Allowed, d.Admitted, d.Status})
	}
}

// remain are what is left of the limits, in turn.
func remain(want ...int64) func(*scene) {
	return func(s *scene) {
		var left []int64
		for _, l := range s.decision().Limits() {
			left = append(left, l.Remaining)
		}
		require.Equal(s, want, left)
	}
}

// tokens are how many were looked at, and the error of the last that was not accepted.
func tokens(n int, err error) func(*scene) {
	return func(s *scene) {
		require.Equal(s, n, s.decision().Tokens)
		require.Equal(s, err, s.decision().TokenErr)
	}
}

func err(err error) func(*scene) {
	return func(s *scene) { require.Equal(s, err, s.decision().TokenErr) }
}

// becomes gives the first instance another configuration: the scene's, changed.
func becomes(changes ...change) func(*scene) {
	return func(s *scene) {
		s.cfg.Limits = slices.Clone(s.cfg.Limits)
		if s.cfg.Challenge != nil {
			c := *s.cfg.Challenge
			s.cfg.Challenge = &c
		}
		for _, change := range changes {
			change(&s.cfg)
		}
		cfg := s.cfg
		cfg.Logger = slog.New(slog.NewTextHandler(s.at(0).Log, nil))
		s.at(0).To(s, cfg)
	}
}

func signedBy(names ...string) change {
	return func(cfg *middleware.Config) {
		cfg.Secrets = nil
		for _, name := range names {
			cfg.Secrets = append(cfg.Secrets, secret(name))
		}
	}
}

// unaddressed is a request by a socket without an address, and hungUp one whose client waits no longer.
func unaddressed(r *http.Request) { r.RemoteAddr = "@" }

func hungUp(r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	*r = *r.WithContext(ctx)
}

// exhausting uses up what a mode gives without work.
func exhausting(mode middleware.Mode, as ...option) step {
	if mode == middleware.WhenExhausted {
		return step{times: 5, as: both(as...), want: 200}
	}
	return step{}
}

// same checks that the last token equals the named one, byte for byte.
func same(name string) func(*scene) {
	return func(s *scene) { require.Equal(s, s.tokens[name], tokenIn(s.last)) }
}

// Requests of the endpoints.
var toFetch, toRedeem = both(method(http.MethodGet), path("/tally/challenge")), path("/tally/redeem")

func costly(cfg *middleware.Config)  { cfg.Cost = costOf }
func quietly(cfg *middleware.Config) { cfg.Quiet = true }

// both changes a request by each in turn.
func both(options ...option) option {
	return func(r *http.Request) {
		for _, o := range options {
			o(r)
		}
	}
}

// buys has a client buy a tally of the first instance; the first token has the name.
func buys(name string, as ...option) func(*scene) {
	return func(s *scene) { s.tokens[name] = bought(s, s.at(0), as...) }
}
