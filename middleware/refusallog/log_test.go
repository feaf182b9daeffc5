// SPDX-License-Identifier: Apache-2.0

package refusallog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/refusallog"
	"github.com/tallystick/tallystick/proof/kit"
)

// A scene is a limiter that refuses what costs more than one, a log, and a clock.
type scene struct {
	log  *refusallog.Log
	now  time.Time
	out  bytes.Buffer
	last middleware.Decision
	h    map[string]http.Handler
	cost int64
	id   middleware.Identity
}

func newScene(t testing.TB, cfg refusallog.Config, policies ...string) *scene {
	t.Helper()
	s := &scene{now: time.Unix(1_800_000_000, 0), h: map[string]http.Handler{}}
	cfg.Logger = slog.New(slog.NewJSONHandler(&s.out, nil))
	cfg.Now = func() time.Time { return s.now }
	s.log = refusallog.New(cfg)
	for _, policy := range policies {
		m := kit.Must(middleware.New(middleware.Config{
			Policy:  policy,
			Limits:  []middleware.Limit{{Quota: 1, Window: time.Hour}},
			Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
			Now:     cfg.Now,
			Cost:    func(*http.Request) int64 { return s.cost },
			Shadow:  policy == "trial",
			Identity: func(*http.Request) (middleware.Identity, error) {
				return s.id, nil
			},
			OnDecision: func(ctx context.Context, d middleware.Decision) {
				s.last = d
				s.log.OnDecision(ctx, d)
			},
			Logger: slog.New(slog.DiscardHandler),
		}))(t)
		s.h[policy] = m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	return s
}

// A sink takes a response.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

var request = httptest.NewRequest(http.MethodPost, "/", http.NoBody)

// send has a client ask, n being its number; it returns its pseudonym.
func (s *scene) send(policy string, n uint32, cost int64) string {
	s.id, s.cost = address(n), cost
	s.h[policy].ServeHTTP(&sink{http.Header{}}, request)
	return s.last.Pseudonym()
}

func address(n uint32) middleware.Identity {
	return middleware.Address(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}))
}

type line struct {
	Msg      string
	Level    string
	Policy   string
	Refused  int
	Within   time.Duration
	Withheld int
	Reasons  map[string]int
	Clients  int
	Most     string
}

// lines returns what was logged since the last time.
func (s *scene) lines(t testing.TB) (all []line) {
	t.Helper()
	for text := range strings.Lines(s.out.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.Equal(t, "tallystick: requests refused", l.Msg)
		require.Equal(t, "WARN", l.Level)
		all = append(all, l)
	}
	s.out.Reset()
	return all
}

// The first refusal is told at once, what follows a minute later by the next decision, and
// the rest by Flush.
func TestALineAMinute(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact")
	s.send("contact", 1, 1)
	require.Empty(t, s.lines(t), "admitted")
	ada := s.send("contact", 1, 2)
	want := line{Msg: "tallystick: requests refused", Level: "WARN", Policy: "contact", Refused: 1,
		Reasons: map[string]int{"cost-above-quota": 1}, Clients: 1, Most: ada + "=1 cost-above-quota"}
	require.Equal(t, []line{want}, s.lines(t))

	s.now = s.now.Add(time.Second)
	for range 2 {
		s.send("contact", 1, 1)
	}
	bob := s.send("contact", 2, 2)
	s.now = s.now.Add(58 * time.Second)
	s.send("contact", 3, 1)
	require.Empty(t, s.lines(t), "59 seconds later")
	s.now = s.now.Add(time.Second)
	s.send("contact", 4, 1)
	want.Refused, want.Within, want.Clients = 3, 59*time.Second, 2
	want.Reasons = map[string]int{"over-limit": 2, "cost-above-quota": 1}
	want.Most = ada + "=2 over-limit, " + bob + "=1 cost-above-quota"
	require.Equal(t, []line{want}, s.lines(t), "told by an admitted request")

	s.now = s.now.Add(time.Hour)
	s.send("contact", 5, 1)
	require.Empty(t, s.lines(t), "nothing to tell")
	s.send("contact", 1, 3)
	require.Len(t, s.lines(t), 1, "at once")
	s.send("contact", 1, 3)
	require.Empty(t, s.lines(t))
	s.log.Flush()
	require.Len(t, s.lines(t), 1)
	s.log.Flush()
	require.Empty(t, s.lines(t))
}

// Each policy has lines of its own, whichever decision brings them.
func TestLinesOfPolicies(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact", "trial")
	s.send("contact", 1, 2)
	s.send("trial", 1, 2)
	require.Len(t, s.lines(t), 2)
	s.send("contact", 1, 2)
	s.send("trial", 1, 2)
	s.send("trial", 1, 2)
	s.now = s.now.Add(time.Minute)
	s.send("contact", 9, 1)
	lines := s.lines(t)
	require.Len(t, lines, 2)
	require.Equal(t, []string{"contact", "trial"}, []string{lines[0].Policy, lines[1].Policy})
	require.Equal(t, []int{1, 2}, []int{lines[0].Refused, lines[1].Refused})
	require.Equal(t, []int{0, 2}, []int{lines[0].Withheld, lines[1].Withheld}, "shadow mode passed them on")
}

// What is due of one policy does not bring the lines of another early, and does not lose them.
func TestLinesOfPoliciesAtDifferentTimes(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact", "login")
	s.send("contact", 1, 2)
	s.now = s.now.Add(30 * time.Second)
	s.send("login", 1, 2)
	require.Len(t, s.lines(t), 2)
	s.send("contact", 1, 2)
	s.send("login", 1, 2)
	for _, policy := range []string{"contact", "login"} {
		s.now = s.now.Add(29 * time.Second)
		s.send("contact", 9, 0)
		require.Empty(t, s.lines(t))
		s.now = s.now.Add(time.Second)
		s.send("contact", 9, 0)
		lines := s.lines(t)
		require.Len(t, lines, 1)
		require.Equal(t, policy, lines[0].Policy)
	}
}

// A clock that was an hour ahead must not silence the log for an hour.
func TestAClockThatStepsBack(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact")
	s.now = s.now.Add(time.Hour)
	s.send("contact", 1, 2)
	s.send("contact", 1, 2)
	require.Len(t, s.lines(t), 1)
	s.now = s.now.Add(-time.Hour)
	s.send("contact", 1, 2)
	lines := s.lines(t)
	require.Len(t, lines, 1)
	require.Zero(t, lines[0].Within)
}

// The zero Identity has no pseudonym, and is counted.
func TestNobodyIsCounted(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact")
	s.id = middleware.Identity{}
	s.h["contact"].ServeHTTP(&sink{http.Header{}}, request)
	lines := s.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, map[string]int{"identity-unknown": 1}, lines[0].Reasons)
	require.Zero(t, lines[0].Clients)
	require.Empty(t, lines[0].Most)
}

// What a flood costs: a line a minute, the same memory for any clients, and a client behind a
// hundredth of it is found among a million others.
func TestAFloodCannotFloodTheLog(t *testing.T) {
	requests := 1_000_000
	if kit.Brief() {
		requests = 50_000
	}
	s := newScene(t, refusallog.Config{}, "contact")
	random := rand.New(rand.NewPCG(1, 2))
	worst := uint32(0x0a000001)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const minutes = 10
	perMinute := requests / minutes
	var before uint64
	s.send("contact", 1, 2) // what opens the first minute
	require.Len(t, s.lines(t), 1)
	pseudonym := ""
	for minute := range minutes {
		mine := 0
		for i := range perMinute {
			if i%100 == 99 {
				pseudonym = s.send("contact", worst, 2)
				mine++
				continue
			}
			s.send("contact", 1<<31|random.Uint32(), 2)
		}
		if minute == 0 {
			before = heap()
		}
		s.now = s.now.Add(time.Minute)
		s.send("contact", 1, 1) // admitted the first time, refused later: it brings the line
		lines := s.lines(t)
		require.Len(t, lines, 1, "a line a minute")
		l := lines[0]
		require.InDelta(t, perMinute, l.Refused, 1)
		require.InEpsilon(t, perMinute-mine, l.Clients, 0.1, "%+v", l)
		require.Regexp(t, `^`+pseudonym+`=\d+ cost-above-quota, `, l.Most)
		require.Equal(t, 5, strings.Count(l.Most, "="))
		require.Less(t, len(l.Most), 300)
	}
	grown := int64(heap()) - int64(before)
	t.Logf("%d refused in %d minutes: %d lines, the heap has grown by %d bytes", requests, minutes, minutes, grown)
	require.Less(t, grown, int64(256<<10))
}

// Requests come at once. Nothing is told twice and nothing is lost.
func TestRefusalsAtOnce(t *testing.T) {
	s := newScene(t, refusallog.Config{}, "contact")
	s.send("contact", 1, 2)
	s.lines(t)
	refusal := s.last
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				s.log.OnDecision(context.Background(), refusal)
			}
		})
	}
	all.Wait()
	require.Empty(t, s.lines(t))
	s.now = s.now.Add(time.Minute)
	for range 8 {
		all.Go(func() { s.log.OnDecision(context.Background(), refusal) })
	}
	all.Wait()
	s.log.Flush()
	lines := s.lines(t)
	require.LessOrEqual(t, len(lines), 2)
	refused := 0
	for _, l := range lines {
		refused += l.Refused
	}
	require.Equal(t, 8008, refused)
}

func BenchmarkRefused(b *testing.B) {
	s := newScene(b, refusallog.Config{}, "contact")
	s.send("contact", 1, 2)
	refusal := s.last
	b.ReportAllocs()
	for b.Loop() {
		s.log.OnDecision(context.Background(), refusal)
	}
}

func BenchmarkAdmitted(b *testing.B) {
	s := newScene(b, refusallog.Config{}, "contact")
	s.send("contact", 1, 2)
	s.send("contact", 1, 2) // one line is not due yet
	s.send("contact", 1, 1)
	admission := s.last
	require.True(b, admission.Admitted)
	b.ReportAllocs()
	for b.Loop() {
		s.log.OnDecision(context.Background(), admission)
	}
}
