// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// problems takes the error of New apart: every part must be a storeless.ConfigError.
func problems(t testing.TB, err error) (fields []string) {
	t.Helper()
	var lines []string
	for problem := range storeless.ConfigErrors(err) {
		require.NotEmpty(t, problem.Problem)
		require.Equal(t, problem.Field+": "+problem.Problem, problem.Error())
		fields, lines = append(fields, problem.Field), append(lines, problem.Error())
	}
	// Nothing else is in the error, but for the policy that it is about.
	text := strings.Join(lines, "\n")
	if got, ok := strings.CutSuffix(err.Error(), text); !ok || got != "" {
		require.Regexp(t, `^policy ".*":[ \n]$`, got)
	}
	return fields
}

// wordy returns limits whose tokens are short or too long, as the quota is.
func wordy(quota int64) (all []middleware.Limit) {
	for i := range 8 {
		all = append(all, fixed(quota, time.Duration(i+1)*time.Minute))
	}
	return all
}

// A mistake is a change to a configuration, the field that New names, and what it says of it.
type mistake struct {
	field string
	spoil change
	says  string // a part of the line
}

// requireMistakes has New refuse each, for the one field alone.
func requireMistakes(t *testing.T, of func(*clock) middleware.Config, mistakes []mistake) {
	for _, mistake := range mistakes {
		t.Run(mistake.field+" "+mistake.says, func(t *testing.T) {
			m, err := middleware.New(by(of, mistake.spoil)(&scene{now: new(clock)}))
			require.Nil(t, m)
			require.Equal(t, []string{mistake.field}, problems(t, err), "%v", err)
			require.Contains(t, err.Error()+"\n", mistake.says)
		})
	}
}

func TestBadConfigurations(t *testing.T) {
	short := secret("a")[:31]
	tooMany := make([][]byte, 9)
	for i := range tooMany {
		tooMany[i] = secret(string(rune('a' + i)))
	}
	type config = middleware.Config
	requireMistakes(t, contact, []mistake{
		{"Policy", func(c *config) { c.Policy = "" }, "1 to 32"},
		{"Policy", func(c *config) { c.Policy = "Contact" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = "con tact" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = "con;tact\r\n" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = strings.Repeat("a", 33) }, "1 to 32"},
		{"Limits", func(c *config) { c.Limits = nil }, "at least one"},
		{"Limits", func(c *config) {
			c.Limits = nil
			for i := range 9 {
				c.Limits = append(c.Limits, fixed(5, time.Duration(i+1)*time.Second))
			}
		}, "at most 8"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = 0 }, "from 1"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = -1 }, "from 1"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = math.MaxInt32 + 1 }, "2147483647"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = math.MaxInt64 }, "2147483647"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = 0 }, "from 1 s"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = -time.Minute }, "from 1 s"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = time.Millisecond }, "whole seconds"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = 1500 * time.Millisecond }, "whole seconds"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = math.MaxInt64 }, "366 days"},
		{"Limits[0].Algorithm", func(c *config) { c.Limits[0].Algorithm = 200 }, "SlidingWindow"},
		{"Limits[0].Burst", func(c *config) { c.Limits[0].Burst = 3 }, "TokenBucket"},
		{"Limits[0].Name", func(c *config) { c.Limits[0].Name = "No!" }, "a-z"},
		{"Limits[2].Name", func(c *config) { // two unnamed limits of one window are two limits of one name
			c.Limits = []middleware.Limit{fixed(5, time.Minute), fixed(6, time.Minute), fixed(7, time.Minute)}
		}, "taken"},
		{"Limits[1].Name", func(c *config) {
			c.Limits = []middleware.Limit{fixed(5, time.Minute), fixed(5, time.Hour)}
			c.Limits[0].Name, c.Limits[1].Name = "same", "same"
		}, "taken"},
		{"Secrets", func(c *config) { c.Secrets = nil }, "at least one"},
		{"Secrets", func(c *config) { c.Secrets = tooMany }, "at most 8"},
		{"Secrets[0]", func(c *config) { c.Secrets = [][]byte{{}} }, "32"},
		{"Secrets[1]", func(c *config) { c.Secrets = append(c.Secrets, short) }, "31"},
		{"Secrets[1]", func(c *config) { c.Secrets = append(c.Secrets, c.Secrets[0]) }, "same"},
		{"Secrets[0]", func(c *config) { c.Secrets = [][]byte{make([]byte, 32)} }, "zeros"},
		{`Tiers[""]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"": c.Limits} }, "name"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": nil} }, "at least one"},
		{`Tiers["pro"][0].Quota`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {fixed(0, time.Minute)}} }, "from 1"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Hour)}} }, "windows"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {{Quota: 9, Window: time.Minute}}} }, "algorithms"},
		{`Tiers["pro"]`, func(c *config) {
			c.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Minute), fixed(90, time.Hour)}}
		}, "Limits"},
		{"Limits", func(c *config) { c.Limits = wordy(math.MaxInt32) }, "512 at most"},
		{"Limits", func(c *config) {
			c.Limits, c.Tiers = wordy(9), map[string][]middleware.Limit{"pro": wordy(math.MaxInt32)}
		}, "512 at most"},
		{"TokenTransport", func(c *config) { c.TokenTransport = 4 }, "HeaderOrCookie"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.InsecureNoMemory = middleware.MemoryOnly, true }, "nothing would count"},
		{"Fields", func(c *config) { c.Fields = 1 << 7 }, "constants of Fields"},
		{"EmbeddedCookie", func(c *config) { c.EmbeddedCookie, c.InsecureCookie = true, true }, "Partitioned"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.EmbeddedCookie = middleware.HeaderOnly, true }, "no cookie"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.InsecureCookie = middleware.HeaderOnly, true }, "no cookie"},
		{"MaxClients", func(c *config) { c.MaxClients = -1 }, "16777216"},
		{"MaxClients", func(c *config) { c.MaxClients = 1<<24 + 1 }, "16777216"},
		{"Instances", func(c *config) { c.Instances = -1 }, "from 1 to 1048576"},
		{"Instances", func(c *config) { c.Instances = 1<<20 + 1 }, "from 1 to 1048576"},
		{"Net56Factor", func(c *config) { c.Net56Factor = -1 }, "from 1"},
		{"Net48Factor", func(c *config) { c.Net48Factor = -1 }, "from Net56Factor"},
		{"Net48Factor", func(c *config) { c.Net48Factor = 7 }, "from Net56Factor"},
	})
}

// everythingWrong is a configuration with a mistake in each field that can have one, and where New must find them.
func everythingWrong() (cfg middleware.Config, fields []string) {
	return middleware.Config{
			Policy: "Contact!",
			Limits: []middleware.Limit{
				{Quota: -1, Window: time.Nanosecond, Algorithm: 9, Burst: 2, Name: "No"},
				{Quota: 5, Window: time.Minute},
			},
			Secrets:        [][]byte{secret("a"), secret("a"), secret("b")[:8], {}, make([]byte, 40)},
			Tiers:          map[string][]middleware.Limit{"": {}, "pro": {{Quota: 0, Window: time.Hour}}},
			TokenTransport: 17,
			MaxClients:     -7, Instances: -4, Fields: 1 << 7,
			Advanced: middleware.Advanced{EmbeddedCookie: true, InsecureCookie: true, Net56Factor: -1, Net48Factor: -2},
			Challenge: &middleware.Challenge{
				Mode: 7, Work: 3, NonceOnly: true, Crowd: 1000, SalesPerHour: -1, PassTime: time.Nanosecond, Path: "x", BusyPerSecond: -1, BusyAtOnce: 3,
			},
		}, []string{
			"Policy",
			"Limits[0].Name", "Limits[0].Algorithm", "Limits[0].Quota", "Limits[0].Window", "Limits[0].Burst",
			`Tiers[""]`, `Tiers[""]`, `Tiers["pro"]`, `Tiers["pro"][0].Quota`,
			"TokenTransport", "Fields", "MaxClients", "Instances", "Net56Factor", "Net48Factor", "EmbeddedCookie",
			"Secrets[1]", "Secrets[2]", "Secrets[3]", "Secrets[4]",
			"Challenge.BusyPerSecond", "Challenge.BusyAtOnce", "Challenge.Mode", "Challenge.Work", "Challenge.NonceOnly", "Challenge.NonceOnly",
			"Challenge.Crowd", "Challenge.SalesPerHour", "Challenge.PassTime", "Challenge.Path",
		}
}

func TestAllProblemsAtOnce(t *testing.T) {
	cfg, want := everythingWrong()
	m, err := middleware.New(cfg)
	require.Nil(t, m)
	got := problems(t, err)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	require.Len(t, strings.Split(err.Error(), "\n"), 1+len(want), "a line each, after the policy's name")
	for field := range reflect.TypeFor[middleware.Config]().Fields() {
		if kind := field.Type.Kind(); reflect.Int <= kind && kind <= reflect.Uint64 {
			require.Contains(t, want, field.Name, "a number has bounds: give everythingWrong one that New refuses")
		}
	}

	var problem *storeless.ConfigError
	require.ErrorAs(t, err, &problem)
}

// No mistake hides another: New tells of any two of these together, as it tells of each alone.
func TestNoMistakeHidesAnother(t *testing.T) {
	type config = middleware.Config
	now := new(clock)
	whole := func(cfg config, more middleware.Limit) config {
		cfg.Limits = []middleware.Limit{
			{Name: "requests", Quota: 3, Window: time.Minute}, {Name: "tokens", Quota: 100, Window: time.Minute}, more,
		}
		cfg.Tiers = map[string][]middleware.Limit{"pro": slices.Clone(cfg.Limits)}
		cfg.Units = map[string]middleware.Unit{"tokens": {Limits: []string{"tokens"}}}
		cfg.Concurrency = &middleware.Concurrency{Max: 5}
		cfg.Identity = middleware.PeerAddress
		cfg.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) { return nil, nil }}
		return cfg
	}
	tokens := func() config {
		cfg := whole(contact(now), middleware.Limit{Name: "failures", Quota: 9, Window: time.Minute})
		cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}}
		cfg.Challenge = &middleware.Challenge{Mode: middleware.EveryRequest}
		return cfg
	}
	counted := func() config {
		return whole(paid(now, memory.New(0, now.Now)), middleware.Limit{Name: "month", Quota: 9, Calendar: "month"})
	}
	anywhere := []change{
		func(c *config) { c.Policy = "Contact!" },
		func(c *config) { c.Limits[0].Quota = 0 },
		func(c *config) { c.Limits[0].Name = "No!" },
		func(c *config) { c.Limits[0].Burst = 2 },
		func(c *config) { c.Limits[1].Window = -1 },
		func(c *config) { c.Limits[1].Algorithm = 9 },
		func(c *config) { c.Units["Words"] = middleware.Unit{Limits: []string{"requests"}} },
		func(c *config) { c.Units["words"] = middleware.Unit{Limits: []string{"letters"}} },
		func(c *config) { c.Units["more"] = middleware.Unit{Limits: []string{"tokens"}} },
		func(c *config) { c.Units["none"] = middleware.Unit{} },
		func(c *config) { c.Tiers["pro"][0].Window = time.Hour },
		func(c *config) { c.Tiers["free"] = c.Limits[:1] },
		func(c *config) { c.Tiers["pro"][1].Quota = 0 },
		func(c *config) { c.Secrets = nil },
		func(c *config) { c.Concurrency.Max = 0 },
		func(c *config) { c.LimitsFor.Life = time.Microsecond },
		func(c *config) { c.Instances = -1 },
		func(c *config) { c.MaxClients = -1 },
		func(c *config) { c.Net56Factor = -1 },
		func(c *config) { c.TokenTransport = 9 },
	}
	var hidden []string
	for name, test := range map[string]struct {
		of      func() config
		changes []change
	}{
		"token policy": {tokens, append([]change{
			func(c *config) { c.Limits[2].Window, c.Limits[2].Calendar = 0, "month" },
			func(c *config) { c.Limits[2].Zone = "Europe/Atlantis" },
			func(c *config) { c.ByOutcome.Limits = []string{"failure"} },
			func(c *config) { c.ByOutcome.Free = []int{99} },
			func(c *config) { c.Challenge.Work = 1 },
			func(c *config) { c.Challenge.Path = "tally" },
			func(c *config) { c.Challenge.PassTime = time.Second },
		}, anywhere...)},
		"exact": {counted, append([]change{
			func(c *config) { c.Limits[2].Calendar = "year" },
			func(c *config) { c.Limits[2].Zone = "Europe/Atlantis" },
			func(c *config) { c.Limits[1].Shadow = true },
			func(c *config) { c.Limits[0].Algorithm, c.Limits[0].Quota = storeless.SlidingLog, 1<<20 },
			func(c *config) { c.Exact.Outage = 0 },
			func(c *config) { c.Exact.Counter = nil },
			func(c *config) { c.Exact.PayingTiers = []string{"gold"} },
			func(c *config) {
				for i := range 5 {
					more := middleware.Limit{Name: fmt.Sprint("more-", i), Quota: 9, Window: time.Hour}
					c.Limits, c.Tiers["pro"] = append(c.Limits, more), append(c.Tiers["pro"], more)
				}
			},
		}, anywhere...)},
	} {
		told := func(changes ...change) (fields []string) {
			cfg := test.of()
			for _, change := range changes {
				change(&cfg)
			}
			_, err := middleware.New(cfg)
			require.Error(t, err)
			return problems(t, err)
		}
		kit.Must(middleware.New(test.of()))(t)
		for i, one := range test.changes {
			for j, another := range test.changes[:i] {
				together := told(one, another)
				for _, field := range append(told(one), told(another)...) {
					if !slices.Contains(together, field) {
						hidden = append(hidden, fmt.Sprintf("%s: %s of %d and %d", name, field, j, i))
					}
				}
			}
		}
	}
	require.Empty(t, hidden)
}

func TestLeastConfig(t *testing.T) {
	m := kit.Must(middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
		Secrets: [][]byte{secret("a")},
	}))(t)
	resp := requireStatus(t, http.StatusOK, send(m.Handler(new(spy))))
	require.Equal(t, `"contact";q=5;w=60, "contact-24h";q=50;w=86400`, resp.Header.Get("RateLimit-Policy"))
}

// A user may embed these in a struct that goes through a validation library, which must find no tags of ours in it.
func TestConfigHasNoTags(t *testing.T) {
	for _, of := range []any{middleware.Config{}, middleware.Challenge{}, middleware.Exact{}, middleware.Limit{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			require.Empty(t, field.Tag, "%T.%s", of, field.Name)
		}
	}
}

// Each field of a Config does something: code that neither checks it nor fills in its default reads it.
func TestEveryFieldIsRead(t *testing.T) {
	checks := regexp.MustCompile(`^(validate$|check|withDefaults)`)
	read := map[string]bool{}
	files := kit.Must(filepath.Glob("*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := kit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || checks.MatchString(f.Name.Name) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					read[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	var within func(of reflect.Type)
	within = func(of reflect.Type) {
		for f := range of.Fields() {
			if f.IsExported() {
				require.True(t, read[f.Name] || f.Anonymous, "nothing reads %s.%s", of, f.Name)
			}
			if typ := f.Type; typ.Kind() == reflect.Pointer && typ.Elem().PkgPath() == of.PkgPath() {
				within(typ.Elem())
			} else if f.Anonymous {
				within(typ)
			}
		}
	}
	within(reflect.TypeFor[middleware.Config]())
}

// bare is a response without any field of ours.
func bare(status int) step {
	return step{want: status, fields: fields{
		"RateLimit": planted, "RateLimit-Policy": planted, middleware.TokenHeader: planted,
	}}
}

// TestOptions plays one scenario for each field of Config that shows in
// responses; bare ones keep what the hostile middleware around has planted.
func TestOptions(t *testing.T) {
	playHostile(t, []scenario{
		{"Cost", limiting(func(cfg *middleware.Config) { cfg.Cost = costOf }), []step{
			ok(`"contact";r=1;t=60`).asking(costing(4)),
			no(`"contact";r=1;t=60`, 60).asking(costing(2)),
			ok(`"contact";r=0;t=60`).asking(costing(1)),
			ok(`"contact";r=0;t=60`).asking(costing(0)),
			{want: 403, as: costing(6), fields: fields{"RateLimit": `"contact";r=0;t=60`}},
			bare(500).asking(costing(-100)),
			no(`"contact";r=0;t=60`, 60),
		}},
		{"Quiet", limiting(func(cfg *middleware.Config) {
			cfg.Quiet, cfg.Limits[0].Quota, cfg.Fields = true, 1, middleware.RateLimitFields|middleware.XRateLimitInSeconds
		}), []step{
			bare(200).expect(middleware.TokenHeader, anything).expect("X-RateLimit-Limit", ""),
			{want: 429, retry: 60, fields: fields{"RateLimit": planted, "X-RateLimit-Reset": ""}},
		}},
		{"Quiet without token", limiting(func(cfg *middleware.Config) {
			cfg.Quiet, cfg.TokenTransport, cfg.Limits[0].Quota = true, middleware.MemoryOnly, 1
		}), []step{
			bare(200),
			{want: 429, retry: 60, fields: fields{"RateLimit": planted, middleware.TokenHeader: planted}},
		}},
		{"X-RateLimit in seconds", limiting(func(cfg *middleware.Config) {
			cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
			cfg.Limits = append(cfg.Limits, middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2})
		}), []step{
			ok(anything).expect("X-RateLimit-Limit", "2").expect("X-RateLimit-Remaining", "1").expect("X-RateLimit-Reset", "1"),
			ok(anything).expect("X-RateLimit-Limit", "2").expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "1"),
			no(anything, 1).expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "1"),
		}},
		{"X-RateLimit of the slower of two", limiting(func(cfg *middleware.Config) {
			cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
			cfg.Limits = []middleware.Limit{fixed(1, time.Minute), fixed(1, time.Hour), fixed(1, time.Second)}
		}), []step{
			ok(anything).expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "3600"),
		}},
		{"Shadow", limiting(func(cfg *middleware.Config) { cfg.Shadow, cfg.Limits[0].Quota = true, 1 }), []step{
			ok(`"contact";r=0;t=60`),
			ok(`"contact";r=0;t=60`).expect(middleware.TokenHeader, planted), // as a refusal without a token
		}},
		{"HeaderOnly", limiting(func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }), []step{
			ok(anything).expect("Set-Cookie", "session=1"),
		}},
		{"CookieOnly", limiting(func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly }), []step{
			ok(anything).expect(middleware.TokenHeader, planted),
		}},
	})
}

func TestSkippedRequestsAreNotCounted(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Skip = func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) {
		r, ok := d.Request()
		require.True(t, ok)
		require.Equal(t, "/", r.URL.Path)
	}
	s := &spy{Serve: func(w http.ResponseWriter, r *http.Request) {
		_, decided := middleware.FromContext(r.Context())
		require.Equal(t, r.URL.Path == "/", decided)
	}}
	h := newLimiter(t, cfg).Handler(s)
	require.Equal(t, 20, admitted(h, 20, path("/healthz")))
	require.Empty(t, send(h, path("/healthz")).Header)
	require.Equal(t, 5, admitted(h, 20))
}

func TestConfig(t *testing.T) {
	pro := with("Tier", "pro")
	play(t, []scenario{
		{"a request costs one", limiting(), []step{{want: 200, see: all{func(s *scene) {
			require.EqualValues(s, 1, s.decision().Cost)
			require.Equal(s, "contact", s.decision().Policy)
		}}}}},
		{"tiers share one count", limiting(func(cfg *middleware.Config) {
			cfg.Tiers, cfg.Identity = map[string][]middleware.Limit{"pro": {fixed(8, time.Minute)}}, byTier(only(middleware.APIKey("key-17")))
		}), []step{
			{as: pro, want: 200, fields: fields{"RateLimit-Policy": `"contact";q=8;w=60`}, see: all{func(s *scene) { require.Equal(s, "pro", s.decision().Tier) }}},
			{times: 10, passes: 4}, {as: pro, times: 10, passes: 3, see: all{told()}},
			{as: with("Tier", "no such"), want: 429, fields: fields{"RateLimit-Policy": `"contact";q=5;w=60`}, see: all{told("tier-unknown"), func(s *scene) {
				require.Empty(s, s.decision().Tier)
			}}},
		}},
	})
}

// routes is a site of routes that share five a minute: one at Config.Cost, a dear one, one that tells what is left,
// and one that is too dear for all but a tier.
func routes(t testing.TB, cfg middleware.Config) *site {
	t.Helper()
	s := &site{ServeMux: http.NewServeMux(), Spy: new(spy), Decisions: record(&cfg)}
	cfg.Tiers = map[string][]middleware.Limit{"large": {{Algorithm: middleware.FixedWindow, Quota: 6, Window: time.Minute}}}
	s.M = newLimiter(t, cfg)
	s.Handle("POST /item/{id}", s.M.Handler(s.Spy))
	s.Handle("POST /report", s.M.HandlerCost(3, s.Spy))
	s.Handle("GET /left", s.M.HandlerCost(0, s.Spy))
	s.Handle("POST /everything", s.M.HandlerCost(6, s.Spy))
	s.Handle("/tally/", s.M.Endpoints())
	return s
}

func TestHandlerCost(t *testing.T) {
	for _, test := range []struct {
		name string
		cost func(*http.Request) int64
		item string // what is left after an item
		last string // and after a report
	}{
		{"beside the default", nil, `"contact";r=4;t=60`, `"contact";r=1;t=60`},
		{"beside Config.Cost", func(*http.Request) int64 { return 2 }, `"contact";r=3;t=60`, `"contact";r=0;t=60`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := routes(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Cost = test.cost }))
			left := func() string { return send(s, method("GET"), path("/left")).Header.Get("RateLimit") }
			require.Equal(t, `"contact";r=5`, left())
			require.EqualValues(t, 0, s.Decisions.Last().Cost)
			require.Equal(t, http.StatusOK, send(s, path("/item/7")).StatusCode)
			require.Equal(t, test.item, left())
			require.Equal(t, http.StatusOK, send(s, path("/report")).StatusCode)
			require.EqualValues(t, 3, s.Decisions.Last().Cost)
			require.Equal(t, test.last, left())

			require.Equal(t, http.StatusTooManyRequests, send(s, path("/report")).StatusCode)
			require.Equal(t, http.StatusForbidden, send(s, path("/everything")).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, s.Decisions.Last().Reason)
			require.Equal(t, test.last, left(), "refusals charge nothing")
		})
	}
}

func TestHandlerCostIncorrect(t *testing.T) {
	m := newLimiter(t, contact(new(clock)))
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not -1", func() { m.HandlerCost(-1, new(spy)) })
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not 2147483648", func() { m.HandlerCost(1<<31, new(spy)) })
	require.NotPanics(t, func() { m.HandlerCost(5, new(spy)) })
	for name, mount := range map[string]func(){
		"Handler": func() { m.Handler(nil) }, "HandlerCost": func() { m.HandlerCost(1, nil) }, "a function": func() { m.Handler(http.HandlerFunc(nil)) },
	} {
		require.PanicsWithValue(t, "middleware: nil handler", mount, name)
	}
	for _, m := range []*middleware.Middleware{nil, new(middleware.Middleware)} { // nil of New, whose error was not looked at
		for name, mount := range map[string]func(){
			"Handler": func() { m.Handler(new(spy)) }, "HandlerCost": func() { m.HandlerCost(1, new(spy)) }, "Endpoints": func() { m.Endpoints() }, "ScriptURL": func() { m.ScriptURL() },
		} {
			require.PanicsWithValue(t, "middleware: a Middleware must be made by New, which has returned no error", mount, name)
		}
	}
}

// A route that can never be served is told when it is mounted: an error if no client may ever use its cost, and a
// warning if a tier may not.
func TestRoutesThatNobodyCanAfford(t *testing.T) {
	five := middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}
	nobody := func(largest int64) string {
		return fmt.Sprintf(`level=ERROR msg="tallystick: a cost is above what its client may ever use; refused with 403, and so is everybody" policy=contact code=cost-above-quota cost=25 largest=%d remedy=`, largest)
	}
	line := func(largest int64, tier string) string {
		return fmt.Sprintf(`level=WARN msg="tallystick: a cost is above what its client may ever use; refused with 403" policy=contact code=cost-above-quota cost=25 largest=%d tier=%s remedy=`, largest, tier)
	}
	for name, test := range map[string]struct {
		change func(*middleware.Config)
		want   string // a part of the line
	}{
		"no quota":        {func(*middleware.Config) {}, nobody(5)},
		"no tier":         {func(cfg *middleware.Config) { cfg.Tiers = tierOf(five, 20) }, nobody(20)},
		"a tier":          {func(cfg *middleware.Config) { cfg.Limits[0].Quota, cfg.Tiers = 25, tierOf(five, 20) }, line(20, "other")},
		"all but a tier":  {func(cfg *middleware.Config) { cfg.Tiers = tierOf(five, 25) }, line(5, `""`)},
		"the smallest":    {func(cfg *middleware.Config) { cfg.Limits = append(cfg.Limits, limitOf(100, time.Hour)) }, nobody(5)},
		"enough":          {func(cfg *middleware.Config) { cfg.Limits[0].Quota = 25 }, ""},
		"a burst":         {func(cfg *middleware.Config) { cfg.Limits = bucketOf(100, 24) }, nobody(24)},
		"burst enough":    {func(cfg *middleware.Config) { cfg.Limits = bucketOf(1, 25) }, ""},
		"a shadow":        {func(cfg *middleware.Config) { cfg.Limits = append(bucketOf(100, 50), shadowOf(five)) }, ""},
		"in shadow mode":  {func(cfg *middleware.Config) { cfg.Shadow = true }, ""},
		"own tallies":     {forms(middleware.Newcomers), nobody(5)},
		"what is counted": {func(cfg *middleware.Config) { cfg.Limits, cfg.ByOutcome = failuresOf(5) }, nobody(5)},
		"a customer of unknown quota": {func(cfg *middleware.Config) {
			cfg.Identity = only(middleware.APIKey("x"))
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) { return nil, nil })
		}, line(5, `""`)},
		"a counter": {func(cfg *middleware.Config) { cfg.Exact = paid(new(clock), newLedger(new(clock))).Exact }, nobody(5)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			test.change(&cfg)
			log := logTo(&cfg)
			m := newLimiter(t, cfg)
			m.HandlerCost(25, new(spy))
			said := strings.Join(log.Lines(), "")
			require.Equal(t, test.want == "", said == "", said)
			require.Contains(t, said, test.want)
		})
	}

	// A quota that is lowered below a route later is told then, and Config.Cost when it is asked.
	now := new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = 25
	log := logTo(&cfg)
	m := newLimiter(t, cfg)
	h := m.HandlerCost(25, new(spy))
	cfg.Limits = []middleware.Limit{five}
	require.NoError(t, m.Reconfigure(cfg))
	require.Len(t, log.Lines(), 1)
	require.Equal(t, http.StatusForbidden, send(h).StatusCode)

	cfg.Policy, cfg.Cost = "cost", func(*http.Request) int64 { return 6 }
	h = newLimiter(t, cfg).Handler(new(spy))
	for range 90 {
		now.Advance(time.Second)
		require.Equal(t, http.StatusForbidden, send(h).StatusCode)
	}
	require.Len(t, log.Lines(), 3, "one a minute")
	require.Contains(t, log.Lines()[2], "code=cost-above-quota cost=6 largest=5 ")
}

func tierOf(of middleware.Limit, quota int64) map[string][]middleware.Limit {
	of.Quota = quota
	return map[string][]middleware.Limit{"other": {of}}
}

func limitOf(quota int64, window time.Duration) middleware.Limit {
	return middleware.Limit{Quota: quota, Window: window}
}

func bucketOf(quota, burst int64) []middleware.Limit {
	return []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: quota, Burst: burst, Window: time.Minute}}
}

func shadowOf(l middleware.Limit) middleware.Limit {
	l.Name, l.Shadow = "tried", true
	return l
}

// failuresOf counts attempts, with plenty allowed, and failures by outcome.
func failuresOf(quota int64) ([]middleware.Limit, *middleware.ByOutcome) {
	return []middleware.Limit{{Name: "attempts", Quota: 100, Window: time.Minute}, {Name: "failures", Quota: quota, Window: time.Minute}},
		&middleware.ByOutcome{Limits: []string{"failures"}}
}

// The price follows a new configuration, and can be settled.
func TestHandlerCostIsSettledAndReconfigured(t *testing.T) {
	cfg := contact(new(clock))
	m := newLimiter(t, cfg)
	h := m.HandlerCost(3, &spy{Serve: settling(t, false)})
	require.Equal(t, http.StatusOK, send(h, settles(1)).StatusCode)
	require.Equal(t, `"contact";r=4;t=60`, send(m.HandlerCost(0, new(spy))).Header.Get("RateLimit"))
	cfg.Limits = append(cfg.Limits[:0:0], cfg.Limits...)
	cfg.Limits[0].Quota = 10
	cfg.Cost = func(*http.Request) int64 { return 7 }
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, `"contact";r=6;t=60`, send(m.HandlerCost(0, new(spy))).Header.Get("RateLimit"))
}
