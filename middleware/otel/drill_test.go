// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/otel"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A drill is a program with six policies, its /metrics, and a clock. All is well for half an
// hour. Then, for a quarter of an hour, each of five policies has a trouble of its own:
//
//   - contact is flooded, by 50 addresses that ask 25 times as often as they may;
//   - the exact counter of api is dead;
//   - the exact counter of store is full;
//   - news has a small memory, and meets more strangers than it has room for;
//   - three of four phones that want to sign up bring their proofs too late.
type drill struct {
	t       *testing.T
	now     time.Time
	mux     *http.ServeMux
	metrics http.Handler
	counter *mortal
	store   *mortal
	dump    bytes.Buffer // of all scrapes, with their times
	phones  [2][]string  // proofs of those that are slow: of this step, and of the one before
	quick   uint32       // how many phones were not slow
	next    uint32       // the next stranger's address
}

const (
	step    = 15 * time.Second // between two scrapes
	calm    = 120              // steps
	trouble = 60
)

func newDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{t: t, now: time.Unix(1_700_000_000, 0), mux: http.NewServeMux()}
	registry := prometheus.NewRegistry()
	reader := kit.Must(exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo()))(t)
	d.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	watch := kit.Must(otel.New(metric.NewMeterProvider(metric.WithReader(reader))))(t)
	clock := func() time.Time { return d.now }
	d.counter = &mortal{Counter: memory.New(0, clock), of: errDead}
	d.store = &mortal{Counter: memory.New(0, clock), of: exact.ErrFull}
	for policy, change := range map[string]func(*middleware.Config){
		"calm":    func(*middleware.Config) {},
		"contact": func(*middleware.Config) {},
		"api": func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: d.counter, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
		},
		"store": func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: d.store, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
		},
		"news": func(cfg *middleware.Config) { cfg.MaxClients = 64 },
		"signup": func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.Newcomers, Work: 16, Path: "/tally/"}
		},
	} {
		cfg := middleware.Config{
			Policy:   policy,
			Limits:   []middleware.Limit{{Quota: 6, Window: time.Minute}},
			Secrets:  [][]byte{secret},
			Identity: middleware.ValidatedKey(customer, middleware.PeerAddress),
			Now:      clock, OnDecision: watch.OnDecision,
			Logger: slog.New(slog.DiscardHandler),
		}
		change(&cfg)
		m := kit.Must(middleware.New(cfg))(t)
		kit.Must(watch.Observe(m))(t)
		d.mux.Handle("POST /"+policy, m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		if cfg.Challenge != nil {
			d.mux.Handle("/tally/", m.Endpoints())
		}
	}
	return d
}

// ask has a client at an address ask.
func (d *drill) ask(method, path string, address uint32, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), 4711).String()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r)
	return w
}

// stranger returns a new address, in a network of its own.
func (d *drill) stranger() uint32 {
	d.next++
	return 1<<24 + d.next*2654435761%(200<<24)
}

// phone is the address of the first phone.
const phone = 5 << 24

// work returns the proof of a phone that wants to sign up, which is good for a step.
func (d *drill) work(address uint32) string {
	c, err := pow.ParseHeader(d.ask(http.MethodGet, "/tally/challenge", address).Header().Get(middleware.ChallengeHeader))
	require.NoError(d.t, err)
	require.LessOrEqual(d.t, c.TTL, step)
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1})
	require.NoError(d.t, err)
	return proof
}

// play plays one step, and scrapes.
func (d *drill) play(bad bool) {
	d.now = d.now.Add(step)
	for honest := range uint32(3) { // each asks four times a minute, and may six times
		for _, policy := range []string{"calm", "contact"} {
			d.ask(http.MethodPost, "/"+policy, 0x01010101+honest<<16)
		}
		d.ask(http.MethodPost, "/api", 0x01010101+honest<<16)
		d.ask(http.MethodPost, "/store", 0x01010101+honest<<16)
	}
	d.ask(http.MethodPost, "/contact", 1, "X-Key", key)
	d.ask(http.MethodPost, "/news", 0x01010101)

	for n, proof := range d.phones[1] {
		d.ask(http.MethodPost, "/tally/redeem", phone+uint32(n), middleware.ProofHeader, proof)
	}
	d.phones[0], d.phones[1] = nil, d.phones[0]
	d.quick++ // another each time: to one that buys all day the price would rise
	d.ask(http.MethodPost, "/tally/redeem", phone+d.quick<<8, middleware.ProofHeader, d.work(phone+d.quick<<8))

	d.counter.dead, d.store.dead = bad, bad
	if bad {
		for range 25 {
			for flood := range uint32(50) {
				d.ask(http.MethodPost, "/contact", 0x02020202+flood<<16)
			}
		}
		for range 400 {
			d.ask(http.MethodPost, "/news", d.stranger())
		}
		for n := range uint32(3) {
			d.phones[0] = append(d.phones[0], d.work(phone+n))
		}
	}
	d.scrape()
}

// prometheus starts a Prometheus with the alert rules, which has scraped all of it.
func (d *drill) prometheus() *server {
	dir := d.t.TempDir()
	dump := filepath.Join(dir, "dump")
	require.NoError(d.t, os.WriteFile(dump, append(d.dump.Bytes(), "# EOF\n"...), 0o600))
	promtool(d.t, nil, "tsdb", "create-blocks-from", "openmetrics", "--quiet", dump, filepath.Join(dir, "data"))
	rules, err := filepath.Abs("dashboard/alerts.yml")
	require.NoError(d.t, err)
	return serve(d.t, filepath.Join(dir, "data"), "rule_files: ["+rules+"]\n")
}

// scrape reads /metrics, and writes down what it says with the time of this moment.
func (d *drill) scrape() {
	for line := range strings.Lines(d.page()) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			fmt.Fprintf(&d.dump, "%s %d\n", line, d.now.Unix())
		}
	}
}

func (d *drill) page() string {
	w := httptest.NewRecorder()
	d.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	require.Equal(d.t, http.StatusOK, w.Code)
	return w.Body.String()
}

// A panel is one of the dashboard, with the answers to its queries.
type panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
}

// ask asks every query of the dashboard at a time: titles, and the answers by labels of the first
// of their queries; the answers of other queries follow, with a mark.
func askAll(t *testing.T, s *server, at time.Time) map[string]map[string]float64 {
	t.Helper()
	text := kit.Must(os.ReadFile("dashboard/grafana.json"))(t)
	var board struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(text, &board))
	answers := map[string]map[string]float64{}
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		answers[p.Title] = map[string]float64{}
		for n, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "2m", "$policy", ".*", "$job", ".*").Replace(target.Expr)
			require.NotContains(t, expr, "$", "a variable that the test does not know")
			for name, value := range s.query(t, expr, at) {
				answers[p.Title][name+strings.Repeat("'", n)] = value
			}
		}
		t.Logf("%-36s %v", p.Title, answers[p.Title])
	}
	return answers
}

// alertsAt returns the alerts that are about to fire at a time, with their labels.
func alertsAt(t *testing.T, s *server, at time.Time) (all []string) {
	t.Helper()
	body := kit.Must(s.get(t.Context(), "/api/v1/rules"))(t)
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &rules))
	require.Len(t, rules.Data.Groups, 1)
	require.Len(t, rules.Data.Groups[0].Rules, 17)
	for _, rule := range rules.Data.Groups[0].Rules {
		for labels := range s.query(t, rule.Query, at) {
			all = append(all, rule.Name+" "+labels)
		}
	}
	slices.Sort(all)
	return all
}

// TestAnOperatorSeesFromTheDashboardAlone plays the drill, and asks each question of the
// dashboard twice: while all is well, and in trouble.
func TestAnOperatorSeesFromTheDashboardAlone(t *testing.T) {
	needs(t, "prometheus", "promtool")
	d := newDrill(t)
	for range calm {
		d.play(false)
	}
	well := d.now
	for range trouble {
		d.play(true)
	}
	promtool(t, strings.NewReader(d.page()), "check", "metrics")

	s := d.prometheus()

	const each = 1. / 15 // of a thing that happens once in a step, a second
	sum := func(answers map[string]float64) (all float64) {
		for _, n := range answers {
			all += n
		}
		return all
	}

	t.Log("all is well")
	a := askAll(t, s, well)
	require.InDeltaMapValues(t, map[string]float64{"admitted": 14 * each}, a["Requests"], 1e-9)
	require.Zero(t, sum(a["Refusals, by reason"]))
	require.Zero(t, sum(a["Refused, by route"]))
	require.Equal(t, map[string]float64{"true": 0, "false": 0}, a["Refused, customers and strangers"])
	require.Equal(t, map[string]float64{"api": 0, "store": 0, "api'": 0, "store'": 0}, a["Down, or refusing"])
	require.Equal(t, map[string]float64{"api": 0, "store": 0}, a["Decided without it"])
	require.InDeltaMapValues(t, map[string]float64{"answered api": 3 * each, "answered store": 3 * each}, a["Calls, by result"], 1e-9)
	require.Equal(t, map[string]float64{"api": 0, "store": 0}, a["Places taken"])
	require.Empty(t, a["What newcomers begin with"])
	for policy, fill := range a["Memory in use"] {
		require.Less(t, fill, 0.25, policy)
	}
	require.InDelta(t, each, a["Proofs, by result"]["signup accepted"], 1e-9)
	require.Zero(t, sum(a["Work done in vain"]))
	require.Len(t, a["Secrets"], 6)
	require.Zero(t, a["Tokens, by result"]["api clock-differs"])
	require.Empty(t, alertsAt(t, s, well))

	t.Log("in trouble")
	a = askAll(t, s, d.now)

	// Who is limited, and why? Strangers at /contact, and some at /news, because they are over
	// their limits; no customer, and no client elsewhere.
	require.Greater(t, a["Refused, by route"]["/contact contact"], 0.9)
	require.Zero(t, a["Refused, by route"]["/calm calm"])
	require.Zero(t, a["Refused, by route"]["/api api"])
	require.Greater(t, a["Refusals, by reason"]["contact over-limit"], 1100*each)
	for name, n := range a["Refusals, by reason"] {
		if name != "contact over-limit" && name != "news over-limit" && name != "store overloaded" {
			require.Zero(t, n, name)
		}
	}
	require.Zero(t, a["Refused, customers and strangers"]["true"])
	require.Greater(t, a["Refused, customers and strangers"]["false"], 0.6)

	// Is it an attack? More than seventy refusals of strangers a second, and what gets through is
	// the quota of 50 addresses, six times a minute each, and clients that ask less.
	require.Greater(t, a["Strangers refused"]["contact"], 70.)
	require.LessOrEqual(t, a["Admitted, now and an hour ago"]["contact"], 50*6/60.+4*each)
	require.InDelta(t, 3*each, a["Admitted, now and an hour ago"]["calm"], 1e-9)
	require.Greater(t, a["Price of a tally"]["signup"], 15.)

	// Is the counter healthy? The one of api is not: it answers nothing, and all is decided without
	// it. The one of store answers, and refuses every call.
	require.Equal(t, map[string]float64{"api": 1, "store": 0, "api'": 0, "store'": 1}, a["Down, or refusing"])
	require.InDeltaMapValues(t, map[string]float64{"api": 1, "store": 0}, a["Decided without it"], 1e-9)
	require.Zero(t, a["Calls, by result"]["answered api"])
	require.InDelta(t, 3*each, a["Calls, by result"]["full store"], 1e-9)
	require.InDelta(t, 6*each, sum(a["Calls, by result"]), 1e-9)

	// Is the memory filling? The one of news is full, and newcomers begin with most of a quota.
	require.Greater(t, a["Memory in use"]["news"], 0.9)
	require.Less(t, a["Memory in use"]["calm"], 0.05)
	require.Greater(t, a["What newcomers begin with"]["news"], 0.5)
	require.Greater(t, a["Newcomers counted early"]["news"], 50*each)
	require.Zero(t, sum(a["Sales refused"]))

	// Do honest phones fail? Three of four, because they are too slow.
	require.InDelta(t, 0.75, a["Work done in vain"]["signup expired"], 1e-9)
	require.Zero(t, a["Work done in vain"]["signup client-changed"])
	require.InDelta(t, 3*each, a["Proofs, by result"]["signup expired"], 1e-9)
	require.InDelta(t, 7*each, a["Challenges and proofs"]["signup"], 1e-9, "a client that comes too late is offered another")

	require.Equal(t, []string{
		"TallystickCounterDown api",
		"TallystickCounterFull store",
		"TallystickCounterOverloaded store",
		"TallystickCounterRefuses store",
		"TallystickFlood contact",
		"TallystickMemoryFilling news",
		"TallystickNewcomersRefusedEarly news",
		"TallystickProofsInVain signup expired",
	}, alertsAt(t, s, d.now))
}

// TestAQuietNight: the counter of api is dead, and is asked once in two minutes. The gauge forgets it after
// one, and says nothing before five calls have failed. One call that fails is no alert.
func TestAQuietNight(t *testing.T) {
	needs(t, "prometheus", "promtool")
	d := newDrill(t)
	night := func(dead bool, minutes int) (end time.Time) {
		d.counter.dead = dead
		for n := range minutes * 4 {
			if d.now = d.now.Add(step); n%8 == 0 {
				d.ask(http.MethodPost, "/api", d.stranger())
			}
			d.scrape()
		}
		return d.now
	}
	well := night(false, 20)
	accident := night(true, 1) // one call
	again := night(false, 20)
	night(true, 5)
	dead := night(true, 15)
	back := night(false, 1)
	s := d.prometheus()
	for at := well.Add(-10 * time.Minute); at.Before(again); at = at.Add(step) {
		if at.Sub(well) <= 0 || at.Sub(accident) > 0 {
			require.Empty(t, alertsAt(t, s, at), "%s after the accident", at.Sub(accident))
		}
	}
	for at := dead.Add(-15 * time.Minute); !at.After(dead); at = at.Add(step) {
		require.Equal(t, []string{"TallystickCounterDown api"}, alertsAt(t, s, at), "%s before the end", dead.Sub(at))
	}
	require.Empty(t, alertsAt(t, s, back))
}

// The rules are what promtool takes for rules, and each fires when it should and not before.
func TestAlertRules(t *testing.T) {
	needs(t, "promtool")
	promtool(t, nil, "check", "rules", "dashboard/alerts.yml")
	promtool(t, nil, "test", "rules", "dashboard/alerts_test.yml")
}
