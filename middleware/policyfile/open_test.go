// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// secretText is in the secrets of all tests, and must be in no text that comes out.
const secretText = "hush-hush-q7Lw2ZpV5xNc8RtY-hush-hush-h"

// folder holds a policy file, and its secrets.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder {
	f := folder{t, t.TempDir()}
	f.put("ring", secretText+"\n")
	return f
}

func (f folder) put(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// policies writes a file with these policies and the secrets of the folder.
func (f folder) policies(text string) string {
	f.t.Helper()
	return f.put("policies.json", `{"secrets": {"file": "ring"}, "policies": {`+text+"}}")
}

func serving(names ...string) policyfile.Program {
	p := policyfile.Program{Policies: map[string]middleware.Config{}, Logger: slog.New(slog.DiscardHandler)}
	for _, name := range names {
		p.Policies[name] = middleware.Config{}
	}
	return p
}

const contact = `"contact": {"limits": [{"name": "minute", "quota": 5, "window": "1m"}, {"name": "day", "quota": 50, "window": "24h"}]}`

// opened opens a file with these policies, for a program that serves policies with the names.
func opened(t *testing.T, text string, names ...string) (folder, *policyfile.Set) {
	t.Helper()
	f := newFolder(t)
	set := kit.Must(policyfile.Open(f.policies(text), serving(names...)))(t)
	return f, set
}

// get asks a policy for a handler that does nothing.
func get(m *middleware.Middleware, with ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for _, w := range with {
		w(r)
	}
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w
}

func TestOpen(t *testing.T) {
	_, set := opened(t, contact, "contact")
	limit := set.Middleware("contact")
	require.Equal(t, `"minute";q=5;w=60, "day";q=50;w=86400`, get(limit).Header().Get("RateLimit-Policy"))
	require.PanicsWithValue(t, `policyfile: "other" is none of Program.Policies`, func() { set.Middleware("other") })
}

// The file says all that is data; the program's fields stay where it says nothing.
func TestTheFileComesOnTop(t *testing.T) {
	f := newFolder(t)
	p := serving("api")
	p.Policies["api"] = middleware.Config{
		Cost:      func(*http.Request) int64 { return 2 },
		Fields:    middleware.XRateLimitInSeconds,
		Quiet:     true,
		Limits:    []middleware.Limit{{Quota: 1, Window: 7e9}},
		Challenge: &middleware.Challenge{Path: "/tally/api/", Crowd: 3},
	}
	set := kit.Must(policyfile.Open(f.policies(`"api": {"limits": [{"quota": 9, "window": "1m"}], "quiet": false, "fields": ["ratelimit"], "challenge": {"mode": "newcomers"}}`), p))(t)
	w := get(set.Middleware("api"))
	require.Equal(t, http.StatusForbidden, w.Code, "newcomers prove first")
	require.Equal(t, `"api";q=9;w=60`, w.Header().Get("RateLimit-Policy"), "not quiet")
	require.Contains(t, set.Middleware("api").ScriptURL(), "/tally/api/")
	require.Equal(t, middleware.WhenExhausted, p.Policies["api"].Challenge.Mode, "the program's own block is left alone")

	set = kit.Must(policyfile.Open(f.policies(`"api": {"limits": [{"quota": 9, "window": "1m"}], "shadow": true}`), p))(t)
	w = get(set.Middleware("api"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Header().Get("RateLimit-Policy"), "quiet")
}

// What is wrong is told at once, in the file's words, wherever it is found: by the reader, by
// middleware.New, in the secrets, or because file and program do not fit.
func TestOpenReportsAll(t *testing.T) {
	f := newFolder(t)
	f.put("short", secretText[:16]+"\n# a comment\n\n"+secretText)
	path := f.put("policies.json", `{
	"secrets": {"file": "short"},
	"identity": {"from": "forwarded-for", "trusted": ["0.0.0.0/0", "10.0.0.0/99"]},
	"policies": {
		"contact": {
			"limits": [
				{"name": "minute", "quota": 5, "window": "1m", "burst": 5},
				{"name": "minute", "quota": 0, "window": "1d"}],
			"challange": {}},
		"login": {
			"limits": [
				{"quota": 5, "window": "1m", "burst": 5}],
			"tiers": {
				"pro": {"limits": [{"quota": 5, "window": "2m"}]},
				"a.b": {"limits": [{"quota": 5, "window": "1500ms"}]}},
			"byOutcome": {"limits": ["failures"], "free": [200]},
			"tokenTransport": "memory-only",
			"advanced": {"insecureNoMemory": true}},
		"paid": {
			"limits": [{"quota": 5, "window": "1m"}], "units": {"tokens": {"limits": ["inputs"]}},
			"exact": {"counter": "nosuch", "deadline": "11s"},
			"challenge": {"nonceOnly": true, "work": 16}},
		"stray": {"limits": [{"quota": 5, "window": "1m"}]}}}
`)
	p := serving("contact", "login", "paid", "upload")
	p.Counters = map[string]exact.Counter{"redis": memory.New(0, nil)}
	set, err := policyfile.Open(path, p)
	require.Nil(t, set)
	require.Equal(t, strings.TrimSpace(`
PATH:2: secrets[0]: must be at least 32 random bytes, not 16: `+"`openssl rand -base64 32`"+` makes one (in "short")
PATH:3: identity.trusted[0]: trusts the whole Internet, so that anyone could pose as anyone
PATH:3: identity.trusted[1]: must be a network such as "10.0.0.0/8" or "2001:db8::/32"
PATH:4: policies.upload: is missing: the program serves it
PATH:8: policies.contact.limits[1].quota: must be at least 1, not 0
PATH:8: policies.contact.limits[1].window: must be a duration such as "1s", "15m" or "24h"
PATH:9: policies.contact.challange: is none of limits, secrets, tiers, units, limitsFor, instances, identity, tokenTransport, maxClients, challenge, exact, concurrency, byOutcome, quiet, fields, shadow, advanced
PATH:12: policies.login.limits[0].burst: belongs to a "token-bucket"; leave it out without one
PATH:14: policies.login.tiers.pro: must have the names, algorithms, windows and zones of limits, and the same shadow, in that order; tiers differ in quota and burst alone
PATH:15: policies.login.tiers["a.b"].limits[0].window: must be whole seconds, from 1 s to 366 days, not 1.5 s
PATH:16: policies.login.byOutcome: cannot go with insecureNoMemory: what is charged after the response would be counted nowhere
PATH:16: policies.login.byOutcome.limits: "failures" is none of login
PATH:17: policies.login.tokenTransport: "memory-only" cannot go with insecureNoMemory: nothing would count
PATH:20: policies.paid.units.tokens: has the limit "inputs", which is none of paid
PATH:21: policies.paid.exact.outage: must be "fail-open" or "fail-closed"; there is no default
PATH:21: policies.paid.exact.counter: is no counter of this program, which has redis
PATH:21: policies.paid.exact.deadline: must be from 1 ms to 10 s, or left out for the default of the counter, not 11 s
PATH:22: policies.paid.challenge: cannot go with exact: a tally that is bought would be a quota beside the counter's
PATH:22: policies.paid.challenge.nonceOnly: belongs to "every-request": a tally that costs nothing is no limit
PATH:22: policies.paid.challenge.nonceOnly: asks for no work; leave work out
PATH:23: policies.stray: is no policy of this program, which has contact, login, paid, upload`),
		strings.ReplaceAll(err.Error(), path, "PATH"))
	for problem := range storeless.ConfigErrors(err) {
		require.Contains(t, problem.Field, path+":")
	}
}

// The log names a policy as configured only if it serves.
func TestNothingIsLoggedOfAPolicyThatDoesNotServe(t *testing.T) {
	var said bytes.Buffer
	p := serving("contact", "api")
	p.Logger = slog.New(slog.NewTextHandler(&said, nil))
	_, err := policyfile.Open(newFolder(t).policies(contact+`, "api": {"limits": [{"quota": 0, "window": "1m"}]}`), p)
	require.ErrorContains(t, err, "policies.api.limits[0].quota: must be at least 1, not 0")
	require.Empty(t, said.String())
}

// A mistake in one part of a file hides none in another: all are told, so that no operator starts a program once for
// each.
func TestNoMistakeHidesAnother(t *testing.T) {
	f := newFolder(t)
	path := f.put("policies.json", `{
	"secrets": {"file": "none"},
	"identity": {"from": "forwarded-for", "trusted": ["0.0.0.0/0"]},
	"policies": {"contact": {
		"limits": [{"quota": 5, "window": "1m", "algorithm": "sliding"}],
		"tiers": {"pro": {}},
		"challenge": {"mode": 7}}}}`)
	_, err := policyfile.Open(path, serving("contact"))
	require.EqualError(t, err, strings.ReplaceAll(strings.TrimSpace(`
PATH:2: secrets.file: "none" cannot be read in `+f.dir+`: no such file or directory
PATH:3: identity.trusted[0]: trusts the whole Internet, so that anyone could pose as anyone
PATH:5: policies.contact.limits[0].algorithm: must be sliding-window, fixed-window, token-bucket, leaky-bucket, sliding-log or rolling-day, not "sliding"
PATH:6: policies.contact.tiers.pro.limits: is required
PATH:7: policies.contact.challenge.mode: must be when-exhausted, when-busy, newcomers or every-request, not a number`), "PATH", path))

	// A value that its tags forbid is read, and hides nothing that New finds; it is told once.
	path = f.policies(`"contact": {
		"limits": [{"name": "a", "quota": 0, "window": "1m"}, {"name": "b", "quota": 5, "window": "1500ms"}, {"name": "Bad", "quota": 5, "window": "1h"}],
		"tiers": {"pro": {"limits": []}},
		"challenge": {"work": 1, "path": "/tally/"},
		"exact": {"counter": "No", "deadline": "11s", "outage": "fail-open"},
		"byOutcome": {"limits": ["failure"], "free": [99]}}`)
	_, err = policyfile.Open(path, serving("contact"))
	require.EqualError(t, err, strings.ReplaceAll(strings.TrimSpace(`
PATH:2: policies.contact.limits[0].quota: must be at least 1, not 0
PATH:2: policies.contact.limits[1].window: must be whole seconds, from 1 s to 366 days, not 1.5 s
PATH:2: policies.contact.limits[2].name: must be 1 to 48 of a-z, 0-9 and -
PATH:3: policies.contact.tiers.pro.limits: must have at least 1, not 0
PATH:4: policies.contact.challenge: cannot go with exact: a tally that is bought would be a quota beside the counter's
PATH:4: policies.contact.challenge.work: must be at least 16, not 1
PATH:5: policies.contact.exact.counter: must be 1 to 48 of a-z, 0-9 and -
PATH:5: policies.contact.exact.deadline: must be from 1 ms to 10 s, or left out for the default of the counter, not 11 s
PATH:6: policies.contact.byOutcome: cannot go with exact: there the counter charges each request, and Refund gives back what was not meant to count
PATH:6: policies.contact.byOutcome: cannot go with a challenge but "every-request": each bought tally would allow as many guesses again
PATH:6: policies.contact.byOutcome.limits: "failure" is none of a, b, Bad
PATH:6: policies.contact.byOutcome.free[0]: must be at least 200, not 99`), "PATH", path))

	_, err = policyfile.Open(f.put("policies.json", `{"policies": {"contact": {"limits": [{"algorithm": "`+secretText+`"}]}}}`), serving("contact"))
	require.Regexp(t, "sliding-log or rolling-day$", err.Error(), "it may be a secret, at the wrong place")
	_, err = policyfile.Open(f.put("policies.yaml", "policies:\n  contact: {}\n"), serving("contact"))
	require.ErrorContains(t, err, "policies.yaml:1: must be JSON, one object that begins with {")
}

// A Set holds secrets, perhaps; no verb shows them.
func TestNothingShowsSecrets(t *testing.T) {
	f := newFolder(t)
	p := serving("contact")
	p.Policies["contact"] = middleware.Config{Secrets: [][]byte{[]byte(secretText)}}
	set, err := policyfile.Open(f.put("policies.json", `{"policies": {`+contact+`}}`), p)
	require.NoError(t, err, "the program may have them too")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		for _, shown := range []string{fmt.Sprintf(verb, set), fmt.Sprintf(verb, p)} {
			require.NotContains(t, shown, "hush")
			require.NotContains(t, shown, "104 117 115 104")
			require.NotContains(t, shown, "68757368")
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("set", "set", set)
	require.NotContains(t, log.String(), "hush")
}

// A large file of something else is refused in a text that can be read, and in time that grows
// with the file and not with its square.
func TestAFileOfMistakes(t *testing.T) {
	f := newFolder(t)
	for _, mistake := range []string{`"x%d":1,`, `"x%d":{"limits":[],"identity":{}},`, `"X%d":1,`} {
		var text strings.Builder
		for i := range 8_000 {
			fmt.Fprintf(&text, mistake, i)
		}
		path := f.put("policies.json", `{"policies":{`+strings.TrimSuffix(text.String(), ",")+`}}`)
		_, err := policyfile.Open(path, serving("contact"))
		n := 0
		for problem := range storeless.ConfigErrors(err) {
			n++
			if n == 1001 {
				require.Regexp(t, `has \d+ problems more`, problem.Problem)
			}
		}
		require.Equal(t, 1001, n)
		require.Less(t, len(err.Error()), 1<<20)
	}
	// What comes after the problems that are told is not taken for sound.
	var unknown strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&unknown, `"x%d":1,`, i)
	}
	path := f.put("policies.json", `{`+unknown.String()+`"policies":{"contact":{"limits":[{"quota":1,"window":"1s"}],"identity":{}}}}`)
	_, err := policyfile.Open(path, serving("contact"))
	require.ErrorContains(t, err, "problems more")
}

func TestFilesThatCannotBeRead(t *testing.T) {
	f := newFolder(t)
	_, err := policyfile.Open(filepath.Join(f.dir, "none.json"), serving("contact"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = policyfile.Open(f.dir, serving("contact"))
	require.ErrorContains(t, err, f.dir)
	_, err = policyfile.Open(f.put("large.json", strings.Repeat(" ", 4<<20+1)), serving("contact"))
	require.EqualError(t, err, filepath.Join(f.dir, "large.json")+": is too large to be what it should be")
	_, err = policyfile.Open(f.put("most.json", strings.Repeat(" ", 4<<20)), serving("contact"))
	require.ErrorContains(t, err, "ends too early")
}

func TestFuzzSeedsAreThere(t *testing.T) {
	files := kit.Must(os.ReadDir("testdata/fuzz/FuzzReload"))(t)
	require.GreaterOrEqual(t, len(files), 18, "files that are right, and with a mistake of each kind")
}

// FuzzReload gives a running program any file: it takes the file and goes on, or says in which
// line of it what is wrong and goes on as before. What Check refuses is never taken, and the
// layout of the JSON makes no difference.
func FuzzReload(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := newFolder(t)
		p := serving("contact")
		p.Policies["contact"] = middleware.Config{MaxClients: 64}
		p.Counters = map[string]exact.Counter{"memory": memory.New(0, nil)}
		path := dir.policies(contact)
		set, err := policyfile.Open(path, p)
		require.NoError(t, err)
		limit := set.Middleware("contact")
		before := get(limit).Header().Get("RateLimit-Policy")

		dir.put("policies.json", string(text))
		shape := policyfile.Check(path, text)
		for problem := range storeless.ConfigErrors(shape) {
			require.Regexp(t, `^`+path+`:\d+(: .+)?$`, problem.Field)
		}
		if json.Valid(text) {
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, text))
			again := policyfile.Check(path, compact.Bytes())
			require.Equal(t, shape == nil, again == nil)
		} else {
			require.Error(t, shape)
		}

		err = policyfile.Reload(set)
		if seed := filepath.Base(t.Name()); strings.HasPrefix(seed, "right-") || strings.HasPrefix(seed, "wrong-") {
			require.Equal(t, strings.HasPrefix(seed, "right-"), err == nil, "%v", err)
		}
		require.False(t, shape != nil && err == nil)
		if err != nil {
			for problem := range storeless.ConfigErrors(err) {
				require.True(t, strings.HasPrefix(problem.Field, path+":"), problem.Field)
				require.NotContains(t, problem.Error(), secretText)
			}
			require.Equal(t, before, get(limit).Header().Get("RateLimit-Policy"))
			return
		}
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, get(limit).Code)
	})
}

// from sends a field that names the client. The peer is 192.0.2.1.
func from(field, client string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(field, client) }
}

const once = `"limits": [{"quota": 1, "window": "1h"}]`

// Each source believes the peers and fields that it should.
func TestIdentities(t *testing.T) {
	for identity, field := range map[string]string{
		`{"from": "forwarded-for", "trusted": ["192.0.2.0/24"]}`:                               "X-Forwarded-For",
		`{"from": "header", "header": "X-Real-IP", "trusted": ["10.0.0.0/8", "192.0.2.1/32"]}`: "X-Real-IP",
		`{"from": "insecure-no-peer", "header": "X-Real-IP", "trusted": ["192.0.2.0/24"]}`:     "X-Real-IP",
		`{"from": "peer"}`: "",
		`{"from": "forwarded-for", "trusted": ["198.51.100.0/24"]}`: "",
	} {
		f := newFolder(t)
		set, err := policyfile.Open(f.policies(`"contact": {`+once+`, "identity": `+identity+`}`), serving("contact"))
		require.NoError(t, err, identity)
		send := func(client string) int {
			return get(set.Middleware("contact"), from("X-Forwarded-For", client), from("X-Real-IP", client)).Code
		}
		require.Equal(t, http.StatusOK, send("203.0.113.1"), identity)
		require.Equal(t, http.StatusTooManyRequests, send("203.0.113.1"), identity)
		if field == "" {
			require.Equal(t, http.StatusTooManyRequests, send("203.0.113.2"), identity)
		} else {
			require.Equal(t, http.StatusOK, send("203.0.113.2"), identity)
		}
	}
	_, set := opened(t, `"contact": {`+once+`, "identity": {"from": "header", "header": "Forwarded", "trusted": ["192.0.2.0/24"]}}`, "contact")
	for client, want := range map[string]int{"for=203.0.113.1": http.StatusOK, "for=203.0.113.2": http.StatusOK} {
		require.Equal(t, want, get(set.Middleware("contact"), from("Forwarded", client)).Code)
	}
}

func TestIdentitiesThatAreWrong(t *testing.T) {
	for identity, want := range map[string]string{
		`{"from": "forwarded-for"}`:                                                   "identity.trusted: name the networks of your proxies",
		`{"from": "forwarded-for", "trusted": ["::ffff:10.0.0.0/104"]}`:               "identity.trusted[0]: would match nothing",
		`{"from": "header", "trusted": ["10.0.0.0/8"]}`:                               "identity.header: is required",
		`{"from": "peer", "trusted": ["10.0.0.0/8"]}`:                                 "identity.trusted: belongs to a field that a proxy writes",
		`{"from": "forwarded-for", "header": "X-Real-IP", "trusted": ["10.0.0.0/8"]}`: "identity.header: belongs to header and insecure-no-peer",
		`{"from": "magic"}`:           "identity.from: must be peer, forwarded-for, header or insecure-no-peer",
		`{"trusted": ["10.0.0.0/8"]}`: "identity.from: is required",
	} {
		f := newFolder(t)
		_, err := policyfile.Open(f.policies(`"contact": {`+once+`, "identity": `+identity+`}`), serving("contact"))
		require.ErrorContains(t, err, "policies.contact."+want, identity)
		_, err = policyfile.Open(f.put("policies.json", `{"identity": `+identity+`, "policies": {"contact": {`+once+`}}}`), serving("contact"))
		require.ErrorContains(t, err, ": "+want, identity)
	}
	p := serving("contact")
	p.Policies["contact"] = middleware.Config{LimitsFor: &middleware.LimitsFor{}}
	_, err := policyfile.Open(newFolder(t).policies(`"contact": {`+once+`, "identity": {"from": "peer", "trusted": []}}`), p)
	require.NotContains(t, err.Error(), "needs an identity", "it has one, which is wrong")
}

// A policy that has an identity by code keeps it: the file's is for the others, and a file that
// wants to replace it is refused.
func TestIdentityByCodeStays(t *testing.T) {
	f := newFolder(t)
	p := serving("api", "contact")
	p.Policies["api"] = middleware.Config{Identity: func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey(r.Header.Get("Key")), nil
	}}
	file := func(identity string) string {
		return f.put("policies.json", `{"secrets": {"file": "ring"}, "identity": {"from": "forwarded-for", "trusted": ["192.0.2.0/24"]},
			"policies": {"contact": {`+once+`}, "api": {`+once+identity+`}}}`)
	}
	set := kit.Must(policyfile.Open(file(""), p))(t)
	for _, client := range []string{"203.0.113.1", "203.0.113.2"} {
		require.Equal(t, http.StatusOK, get(set.Middleware("contact"), from("X-Forwarded-For", client)).Code)
		require.Equal(t, http.StatusOK, get(set.Middleware("api"), from("Key", client)).Code)
		require.Equal(t, http.StatusTooManyRequests, get(set.Middleware("api"), from("Key", client)).Code)
	}
	file(`, "identity": {"from": "peer"}`)
	require.ErrorContains(t, policyfile.Reload(set), "policies.api.identity: must be left out: the program tells by code of its own who is asking")
}

func TestTiers(t *testing.T) {
	tiers := kit.Must(policyfile.Tiers("tiers.json", []byte(`{"tiers": {
		"free": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
			{"name": "day", "quota": 200, "window": "24h"}]},
		"pro": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 10, "window": "1s", "burst": 30},
			{"name": "day", "algorithm": "sliding-window", "quota": 5000, "window": "1440m"}]}}}`)))(t)
	require.Equal(t, map[string][]middleware.Limit{
		"free": {
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 2, Window: time.Second, Burst: 5},
			{Name: "day", Quota: 200, Window: 24 * time.Hour},
		},
		"pro": {
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 10, Window: time.Second, Burst: 30},
			{Name: "day", Quota: 5000, Window: 24 * time.Hour},
		},
	}, tiers)
	kit.Must(middleware.New(middleware.Config{
		Policy: "api", Limits: tiers["free"], Tiers: tiers, Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
	}))(t)
}

// TestTiersErrors says for each mistake the file, the line, the path and what is allowed.
func TestTiersErrors(t *testing.T) {
	limit := func(text string) string { return `{"tiers": {"a": {"limits": [` + text + `]}}}` }
	const window = `must be a duration such as "1s", "15m" or "24h"`
	for text, want := range map[string]string{
		``:                                    "t.json:1: ends too early",
		"\n{\"tiers\": {":                     "t.json:2: ends too early",
		"{\n\n\"tiers\": 7}":                  "t.json:3: tiers: must be an object, not a number",
		"{\n\"tears\": {}}":                   `t.json:2: tears: is none of tiers`,
		`{"tiers": {}}`:                       "t.json:1: tiers: must have at least 1, not 0",
		`{}`:                                  "t.json:1: tiers: is required",
		`null`:                                "t.json:1: must be an object, not null",
		"{\"tiers\": {\"\xff\": {}}}":         "t.json:1: must be UTF-8",
		`{"tiers": {"a": {"limits": []}}}`:    "t.json:1: tiers.a.limits: must have at least 1, not 0",
		limit(`{"quota": 0, "window": "1s"}`): "t.json:1: tiers.a.limits[0].quota: must be at least 1, not 0",
		`{"Tiers": {}}`:                       "t.json:1: Tiers: is none of tiers",
		`{"tiers": {"a": {"limits": []}, "a": {}}}`:   "t.json:1: tiers.a: is there twice",
		limit("{\"quota\": 1,\n\"quota\": 2}"):        "t.json:2: tiers.a.limits[0].quota: is there twice",
		limit(`{"quota": 1, "window": "1s"}`) + "\n}": "t.json:2: ",
		limit(`{"quota": 1, "window": 60}`):           "t.json:1: tiers.a.limits[0].window: " + window + ", not a number",
		`7`:                                           "t.json:1: must be an object, not a number",
		`{"tiers": {"a": 7}}`:                         "t.json:1: tiers.a: must be an object, not a number",
		`{"tiers": {"a": {"limits": {"x": 1}}}}`:      "t.json:1: tiers.a.limits: must be a list, not an object",
		`{"tiers": {"a": {"limits": 7}}}`:             "t.json:1: tiers.a.limits: must be a list, not a number",
		`{"tiers": {"a": {"burst": 1, "limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json:1: tiers.a.burst: is none of limits",
		`{"quota": 7, "tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json:1: quota: is none of tiers",
		limit(`{"quota": 1, "window": "1s", "limits": []}`):                        "t.json:1: tiers.a.limits[0].limits: is none of name, algorithm, quota, window, calendar, zone, burst, shadow",
		strings.Repeat("[", 1_000_000):                                             "t.json:1: too many levels",
		limit(`{"quota": {"a": {"b": 1}}}`):                                        "t.json:1: tiers.a.limits[0].quota: must be a whole number, not an object",
		limit(`{"quota": 1}`):                                                      "t.json:1: tiers.a.limits[0].window: is required, or a calendar",
		limit(`{"quota": 1, "window": "a day"}`):                                   "t.json:1: tiers.a.limits[0].window: " + window,
		limit(`{"quota": 1, "window": ""}`):                                        "t.json:1: tiers.a.limits[0].window: " + window,
		limit(`{"quota": 1, "window": "1ms"}`):                                     "t.json:1: tiers.a.limits[0].window: must be whole seconds",
		limit(`{"quota": 1.5, "window": "1s"}`):                                    "t.json:1: tiers.a.limits[0].quota: must be a whole number of at most 18 digits, not 1.5",
		limit(`{"quota": 1e999999999, "window": "1s"}`):                            "t.json:1: tiers.a.limits[0].quota: must be a whole number of at most 18 digits, not 1e999999999",
		limit(`{"quota": 1, "window": "1s"}`) + `{}`:                               "t.json:1: there is more after the end",
		limit(`{"quota": 1, "window": "1s"}`) + `x`:                                "t.json:1: there is more after the end",
		limit(`{"quota": 1, "window": "1s", "algorithm": "magic"}`):                "t.json:1: tiers.a.limits[0].algorithm: must be sliding-window, fixed-window, token-bucket, leaky-bucket, sliding-log or rolling-day",
		limit(`{"quota": 1, "window": "1s", "burst": 4}`):                          "t.json:1: tiers.a.limits[0].burst: belongs to a \"token-bucket\"",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 1, "window": "2s"}]}}}`: "t.json:1: tiers.b.limits: must have the names, algorithms, windows and zones of tiers.a",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 0, "window": "1s"}]}}}`: "t.json:1: tiers.b.limits[0].quota",
		`{"tiers": {"": {"limits": [{"quota": 1, "window": "1s"}]}}}`:                                                   `t.json:1: tiers[""]: must be the name of a tier`,
		limit(`{"name": "x", "quota": 1, "window": "1s"}, {"name": "x", "quota": 1, "window": "2s"}`):                   `t.json:1: tiers.a.limits[1].name: "x" is taken by another limit`,
		limit(`{"quota": 1, "window": "1s", "algorithm": "token-bucket", "burst": -1}`):                                 "t.json:1: tiers.a.limits[0].burst: must be at least 1, not -1",
	} {
		tiers, err := policyfile.Tiers("t.json", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, tiers)
		var problem *storeless.ConfigError
		require.ErrorAs(t, err, &problem)
	}
}

// Two names that begin alike are two, however long, and a report has the begin of each.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("a", 1<<10)
	tier := func(name, quota string) string {
		return `"` + name + `": {"limits": [{"quota": ` + quota + `, "window": "1s"}]}`
	}
	tiers := kit.Must(policyfile.Tiers("t.json", []byte(`{"tiers": {`+tier(long, "1")+","+tier(long+"a", "2")+`}}`)))(t)
	require.EqualValues(t, 1, tiers[long][0].Quota)
	require.EqualValues(t, 2, tiers[long+"a"][0].Quota)
	_, err := policyfile.Tiers("t.json", []byte(`{"tiers": {`+tier(long, "1")+","+tier(long, "0")+`}}`))
	require.ErrorContains(t, err, `t.json:1: tiers["`+long[:64]+`…`)
	require.ErrorContains(t, err, `"]: is there twice`)
	require.Less(t, len(err.Error()), 200)
}
