// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/otel"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/proof/kit"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// key is what a customer shows in the tests.
const key = "the-key-of-a-customer"

func customer(r *http.Request) (middleware.Identity, error) {
	if r.Header.Get("X-Key") != key {
		return middleware.Identity{}, nil
	}
	return middleware.Principal("ada@example.org"), nil
}

// observer makes instruments, and returns a way to read them: values by metric and attributes, none
// if nothing is observed.
func observer(t *testing.T, all ...attribute.KeyValue) (*otel.Instruments, func() map[string]float64) {
	t.Helper()
	reader := metric.NewManualReader()
	watch := kit.Must(otel.New(metric.NewMeterProvider(metric.WithReader(reader)), all...))(t)
	return watch, func() map[string]float64 {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(context.Background(), &all))
		require.LessOrEqual(t, len(all.ScopeMetrics), 1)
		values := map[string]float64{}
		for _, scope := range all.ScopeMetrics {
			require.NotEmpty(t, scope.Scope.Version, "the program says with which one it was built")
			require.Equal(t, otel.ScopeName, scope.Scope.Name)
			for _, m := range scope.Metrics {
				require.NotEmpty(t, m.Unit, m.Name)
				require.NotEmpty(t, m.Description, m.Name)
				before := len(values)
				switch data := m.Data.(type) {
				case metricdata.Sum[int64]:
					require.True(t, data.IsMonotonic, m.Name)
					note(values, m.Name, data.DataPoints)
				case metricdata.Sum[float64]:
					require.True(t, data.IsMonotonic, m.Name)
					note(values, m.Name, data.DataPoints)
				case metricdata.Gauge[int64]:
					note(values, m.Name, data.DataPoints)
				case metricdata.Gauge[float64]:
					note(values, m.Name, data.DataPoints)
				case metricdata.Histogram[int64]:
					noteCounts(values, m.Name, data.DataPoints)
				case metricdata.Histogram[float64]:
					noteCounts(values, m.Name, data.DataPoints)
				default:
					require.Fail(t, "another kind of data", "%T", data)
				}
				require.Greater(t, len(values), before, "an instrument without values: %s", m.Name)
			}
		}
		return values
	}
}

func note[N int64 | float64](values map[string]float64, metric string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		values[name(metric, p.Attributes)] = float64(p.Value)
	}
}

func noteCounts[N int64 | float64](values map[string]float64, metric string, points []metricdata.HistogramDataPoint[N]) {
	for _, p := range points {
		values[name(metric, p.Attributes)] = float64(p.Count)
	}
}

// watched makes a limiter with instruments of its own.
func watched(t *testing.T, cfg middleware.Config) (*middleware.Middleware, func() map[string]float64) {
	t.Helper()
	watch, values := observer(t, attribute.String("cell", "b"))
	cfg.Secrets, cfg.OnDecision = [][]byte{secret}, watch.OnDecision
	m := kit.Must(middleware.New(cfg))(t)
	kit.Must(watch.Observe(m))(t)
	return m, values
}

// name is a metric and its attributes, without what all have, in the order of their names.
func name(metric string, set attribute.Set) string {
	var words []string
	for _, a := range set.ToSlice() {
		if a.Key == "cell" || a.Key == "tallystick.policy" {
			continue
		}
		words = append(words, a.Value.String())
	}
	return strings.Join(append([]string{metric}, words...), " ")
}

// ask sends a request to a route and returns its status.
func ask(h http.Handler, n int, header ...string) int {
	r := httptest.NewRequest(http.MethodPost, "/contact/"+strconv.Itoa(n), http.NoBody)
	r.RemoteAddr = "203.0.113." + strconv.Itoa(n) + ":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// askFor sends a request for which a router has found a pattern.
func askFor(h http.Handler, pattern string) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Pattern, r.RemoteAddr = pattern, "203.0.113.1:4711"
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func contact(now time.Time) middleware.Config {
	return middleware.Config{
		Policy:   "contact",
		Limits:   []middleware.Limit{{Quota: 2, Window: time.Minute}},
		Now:      func() time.Time { return now },
		Identity: middleware.ValidatedKey(customer, middleware.PeerAddress),
	}
}

var noon = time.Unix(1_800_000_000, 0)

func routed(m *middleware.Middleware) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /contact/{id}", m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	return mux
}

func TestDecisionsAreCountedByWhatIsBounded(t *testing.T) {
	m, values := watched(t, contact(noon))
	h := routed(m)
	for range 3 {
		ask(h, 1)
		ask(h, 2, "X-Key", key)
	}
	ask(h, 3)
	got := values()
	want := map[string]float64{
		"tallystick.decisions /contact/{id} false admitted within-limits": 3,
		"tallystick.decisions /contact/{id} false refused over-limit":     1,
		"tallystick.decisions /contact/{id} true admitted within-limits":  2,
		"tallystick.decisions /contact/{id} true refused over-limit":      1,
	}
	for name, n := range got {
		if strings.HasPrefix(name, "tallystick.decisions ") {
			require.Equal(t, want[name], n, name)
			delete(want, name)
		}
		for _, private := range []string{"203.0.113", "ada", key} {
			require.NotContains(t, name, private)
		}
	}
	require.Empty(t, want)
	require.Zero(t, got["tallystick.memory.inheritances"])
	require.Contains(t, got, "tallystick.memory.utilization")
	require.NotContains(t, got, "tallystick.exact.down", "there is none")
}

// Two middlewares of one policy would be one series, which is neither's. A registration ends what is told of
// one.
func TestAPolicyIsObservedOnce(t *testing.T) {
	watch, values := observer(t)
	limiter := func(policy string, instance int) *middleware.Middleware {
		cfg := contact(noon)
		cfg.Policy, cfg.Secrets, cfg.Logger = policy, [][]byte{secret}, slog.New(slog.DiscardHandler).With("instance", instance)
		return kit.Must(middleware.New(cfg))(t)
	}
	first := limiter("contact", 1)
	registered, err := watch.Observe(first)
	require.NoError(t, err)
	for _, second := range []*middleware.Middleware{first, limiter("contact", 2)} {
		_, err = watch.Observe(second)
		require.ErrorContains(t, err, `otel: policy "contact" is observed already`)
	}
	other := kit.Must(watch.Observe(limiter("signup", 1)))(t)
	require.NoError(t, registered.Unregister())
	require.NoError(t, registered.Unregister())
	require.NotEmpty(t, values())
	require.NoError(t, other.Unregister())
	require.Empty(t, values())
	again := kit.Must(watch.Observe(limiter("contact", 3)))(t)
	require.NoError(t, registered.Unregister(), "once more, which is nothing")
	_, err = watch.Observe(first)
	require.Error(t, err)
	require.NoError(t, again.Unregister())
}

// The last reload is told, and when one has succeeded: before the first, when the file was opened.
func TestReloadsAreObserved(t *testing.T) {
	watch, read := observer(t)
	set := &reloads{at: noon}
	_, err := watch.ObserveReloads(set)
	require.NoError(t, err)
	_, err = watch.ObserveReloads(set)
	require.ErrorContains(t, err, "otel: reloads are observed already")
	require.Equal(t, map[string]float64{"tallystick.reload.success": 1, "tallystick.reload.time": 1_800_000_000}, read())
	set.err = errors.New("a comma is missing")
	require.Equal(t, map[string]float64{"tallystick.reload.success": 0, "tallystick.reload.time": 1_800_000_000}, read())
}

type reloads struct {
	at  time.Time
	err error
}

func (r *reloads) LastReload() (time.Time, error) { return r.at, r.err }

// Peers are told as the group counts them.
func TestPeersAreObserved(t *testing.T) {
	watch, read := observer(t)
	_, err := watch.ObservePeers(group{})
	require.NoError(t, err)
	_, err = watch.ObservePeers(group{})
	require.ErrorContains(t, err, "otel: peers are observed already")
	require.Equal(t, map[string]float64{
		"tallystick.peers heard": 2, "tallystick.peers silent": 1, "tallystick.peers.gone": 3, "tallystick.peers.strangers": 4, "tallystick.peers.records": 5,
		"tallystick.peers.records.evicted": 6, "tallystick.peers.requests.waited": 7, "tallystick.peers.requests.busy": 8, "tallystick.peers.slack": 9,
	}, read())
}

type group struct{}

func (group) Stats() peers.Stats {
	return peers.Stats{Heard: make([]string, 2), Silent: make([]string, 1), Gone: 3, Strangers: 4, Records: 5, Evicted: 6, Waited: 7, Busy: 8, Slack: 9}
}

func TestShadowIsWithheld(t *testing.T) {
	cfg := contact(noon)
	cfg.Shadow = true
	m, values := watched(t, cfg)
	for range 3 {
		require.Equal(t, http.StatusOK, ask(routed(m), 1))
	}
	require.EqualValues(t, 1, values()["tallystick.decisions /contact/{id} false withheld over-limit"])
}

// A router that puts paths where patterns belong makes no more series than there are places.
func TestRoutesAreBounded(t *testing.T) {
	m, values := watched(t, contact(noon))
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n := range 2000 {
		askFor(h, "/of-a-client/"+strconv.Itoa(n))
	}
	routes := 0
	for name := range values() {
		if strings.HasPrefix(name, "tallystick.decisions ") {
			routes++
		}
	}
	require.LessOrEqual(t, routes, 512+2)
	require.EqualValues(t, 2000-512, values()["tallystick.decisions _OTHER false refused over-limit"])
}

// What is no pattern of a program's, too long or not UTF-8, is no label: one client would fill
// the memory of metrics, or have the page of them fail.
func TestRoutesAreText(t *testing.T) {
	m, values := watched(t, contact(noon))
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, pattern := range []string{"/" + strings.Repeat("x", 1<<20), "/\xff", "/" + strings.Repeat("y", 256)} {
		askFor(h, pattern)
	}
	other := 0.0
	for name, n := range values() {
		require.Less(t, len(name), 300)
		if strings.Contains(name, "_OTHER") {
			other += n
		}
	}
	require.EqualValues(t, 3, other)
}

// A dying counter: the calls that fail, the decisions without it, and that it is down.
func TestTheCounterIsTold(t *testing.T) {
	now := noon
	cfg := contact(now)
	cfg.Now = func() time.Time { return now }
	counter := &mortal{Counter: memory.New(0, cfg.Now), of: errDead}
	cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
	m, values := watched(t, cfg)
	h := routed(m)
	ask(h, 1)
	got := values()
	require.EqualValues(t, 1, got["tallystick.exact.call.duration answered"])
	require.Zero(t, got["tallystick.exact.down"])
	require.Zero(t, got["tallystick.exact.utilization"])
	counter.dead = true
	for n := range 5 {
		ask(h, 10+n)
		now = now.Add(10 * time.Second)
	}
	ask(h, 20)
	got = values()
	require.EqualValues(t, 1, got["tallystick.exact.down"])
	require.EqualValues(t, 6, got["tallystick.decisions.degraded"])
	failed := got["tallystick.exact.call.duration failed"] + got["tallystick.exact.call.duration down"] + got["tallystick.exact.call.duration skipped"]
	require.EqualValues(t, 6, failed)
	require.Zero(t, got["tallystick.exact.refusing"])

	counter.of = exact.ErrFull
	for n := range 10 {
		ask(h, 30+n)
		now = now.Add(10 * time.Second)
	}
	got = values()
	require.EqualValues(t, 1, got["tallystick.exact.refusing"])
	require.Zero(t, got["tallystick.exact.down"])
}

func TestSpansSayWhatWasDecided(t *testing.T) {
	m, _ := watched(t, contact(noon))
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	h := routed(m)
	traced := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "request")
		defer span.End()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
	for range 3 {
		ask(traced, 1)
	}
	var all []map[string]string
	for _, s := range spans.Ended() {
		attributes := map[string]string{}
		for _, a := range s.Attributes() {
			attributes[string(a.Key)] = a.Value.String()
			require.NotContains(t, a.Value.String(), "203.0.113")
		}
		all = append(all, attributes)
	}
	require.Len(t, all, 3)
	require.Equal(t, map[string]string{
		"tallystick.policy": "contact", "tallystick.outcome": "admitted", "tallystick.reason": "within-limits",
		"tallystick.authenticated": "false", "tallystick.cost": "1",
	}, all[0])
	require.Equal(t, "refused", all[2]["tallystick.outcome"])
	require.Equal(t, "over-limit", all[2]["tallystick.reason"])
	require.Regexp(t, `^[a-z2-7]{16}$`, all[2]["tallystick.client"])
	require.NotEmpty(t, all[2]["tallystick.retry_after"])
	require.NotContains(t, all[0], "tallystick.client", "of refusals alone")
}

var errDead = errors.New("the engine is on fire")

// A mortal counter can die of something.
type mortal struct {
	exact.Counter
	dead bool
	of   error
}

func (m *mortal) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if m.dead {
		return exact.Verdict{}, m.of
	}
	return m.Counter.Take(ctx, call)
}

const page = "../../docs/watching.md"

// The page names every metric that there is, with its unit, and no other; and each is on a panel of the dashboard.
func TestEveryMetricIsOnThePage(t *testing.T) {
	text := kit.Must(os.ReadFile(page))(t)
	var printed, made []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(tallystick\\.[a-z_.]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		printed = append(printed, row[1]+" "+row[2])
	}
	kit.Must(otel.New(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()),
		metric.WithView(func(i metric.Instrument) (as metric.Stream, matches bool) {
			made = append(made, i.Name+" "+i.Unit)
			return as, false
		}))))(t)
	require.NotEmpty(t, made)
	require.ElementsMatch(t, made, printed)

	board := kit.Must(os.ReadFile("dashboard/grafana.json"))(t)
	for _, name := range made {
		name, _, _ = strings.Cut(name, " ")
		series := regexp.MustCompile(strings.ReplaceAll(name, ".", "_") + `(_seconds|_ratio)?(_total|_bucket|_count)?[^a-z_]`)
		require.Regexp(t, series, string(board), "no panel of the dashboard shows it")
	}
}

// Each alert has a section of the page, which its runbook names.
func TestEveryAlertIsOnThePage(t *testing.T) {
	text := kit.Must(os.ReadFile(page))(t)
	_, after, _ := strings.Cut(string(text), "\n## Alerts\n")
	section, _, _ := strings.Cut(after, "\n## ")
	rules := kit.Must(os.ReadFile("dashboard/alerts.yml"))(t)
	var sections, alerts, runbooks []string
	for _, m := range regexp.MustCompile(`(?m)^### (Tallystick\w+)$`).FindAllStringSubmatch(section, -1) {
		sections = append(sections, m[1])
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	for _, m := range regexp.MustCompile(`runbook_url: "https://github.com/tallystick/tallystick/blob/main/docs/watching.md#(\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		runbooks = append(runbooks, m[1])
	}
	require.Len(t, alerts, 17)
	require.Equal(t, alerts, sections)
	require.Equal(t, strings.ToLower(strings.Join(alerts, " ")), strings.Join(runbooks, " "))
}
