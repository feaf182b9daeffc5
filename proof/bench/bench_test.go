// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/aes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/token"
)

func TestMain(m *testing.M) {
	if told, err := serveAsTold(os.Stdin, os.Stdout); told {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// able runs do, and skips the test if a server is not installed.
func able(t *testing.T, do func()) {
	t.Helper()
	err := failing(do)
	if errors.Is(err, exec.ErrNotFound) {
		kit.Unable(t, "%v", err)
	}
	require.NoError(t, err)
}

// at returns an opening with the clock of a test.
func at(now *time.Time) *opening {
	o := new(opening)
	o.now = func() time.Time { return *now }
	return o
}

// post answers a request from an address.
func post(h http.Handler, from string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://bench.test/contact", http.NoBody)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// All limiters that are compared do the same work: they count the requests of each address whatever its port, admit the quota
// and refuse the next request.
func TestLimitersAgree(t *testing.T) {
	const quota = 3
	for name, build := range limiters {
		if name == bare {
			continue
		}
		t.Run(name, func(t *testing.T) {
			o := new(opening)
			t.Cleanup(func() { require.NoError(t, o.close()) })
			able(t, func() {
				o.redisFor(name)
				o.members = []string{"127.0.0.1:" + kit.FreePort(t)}
				h := build(o, terms{quota, 365 * 24 * time.Hour, 2}) // no window ends during the test
				for i := range quota {
					w := post(h, fmt.Sprintf("10.1.2.3:4000%d", i))
					require.Equal(t, http.StatusOK, w.Code)
					require.Equal(t, string(okay), w.Body.String())
				}
				for range 2 {
					require.Equal(t, http.StatusTooManyRequests, post(h, "10.1.2.3:50000").Code)
				}
				require.Equal(t, http.StatusOK, post(h, "10.1.2.4:40000").Code)
			})
		})
	}
}

// The floor's answers have our fields in every state of a sliding window, for a client that alternates between instances and
// sometimes loses its token.
func TestFloorAnswersAsWeDo(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o, terms := at(&now), terms{7, time.Hour, 1}
	tokens := map[string]int{}
	clients := make([]*asker, 2)
	for i, b := range []builder{ours(), newFloor} {
		clients[i] = newAsker(http.MethodPost, b(o, terms), b(o, terms))
		clients[i].field = byHeader
	}
	us, floor := clients[0], clients[1]
	for i := range 400 {
		now = now.Add(time.Duration(i*i%797) * time.Second)
		for _, a := range clients {
			a.want = http.StatusOK
			if a.clients[0].lines[0] == "" || i%11 == 0 {
				delete(a.request.Header, byHeader)
			} else {
				a.show(byHeader, a.clients[0].lines...)
			}
			a.run(1)
			a.take(&a.clients[0])
		}
		require.Equal(t, us.w.status, floor.w.status, i)
		if us.w.status != http.StatusOK && us.request.Header[byHeader] == nil {
			for _, a := range clients { // a refused client that has shown no token may get one
				delete(a.w.header, byHeader)
				delete(a.w.header, setCookie)
			}
		}
		for name, lines := range us.w.header {
			other := floor.w.header[name]
			require.Len(t, other, len(lines), "%d: %s of %v", i, name, floor.w.header)
			switch name {
			case byHeader, setCookie:
				require.Len(t, other[0], len(lines[0]), "%d: %s and %s", i, lines[0], other[0])
				tokens[name]++
			case "Retry-After", "Content-Length": // these have jitter, and the floor's text is shorter
			default:
				require.Equal(t, lines, other, "%d: %s", i, name)
			}
		}
		require.Len(t, floor.w.header, len(us.w.header), i)
	}
	require.Greater(t, tokens[byHeader], 100)
	require.Greater(t, tokens[setCookie], 10)
}

// A handler finds the floor's decision, and cannot change the fields.
func TestFloorGuardsItsFields(t *testing.T) {
	f := newFloor(new(opening), terms{5, time.Hour, 1}).(*floor)
	f.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := r.Context().Value(floorKey{}).(*floorDecision)
		require.True(t, ok)
		require.EqualValues(t, 4, d.Remaining)
		w.Header().Set("Cache-Control", "public")
		w.Header().Del(byHeader)
		kit.Must(w.Write(okay))(t)
	})
	a := newAsker(http.MethodPost, f)
	a.brings = byBoth
	a.ask(1)
	require.Equal(t, []string{"no-store"}, a.w.header["Cache-Control"])

	// Only a whole token of the client itself is accepted.
	now := time.Now().Unix()
	tok, s := a.w.header.Get(byHeader), f.scratch.Get().(*scratch)
	subject := func() (all [8]byte) { copy(all[:], must(strict.DecodeString(tok[57 : len(tok)-44]))[24:]); return all }()
	_, ok := f.verify(s, tok, subject, now)
	require.True(t, ok)
	for _, bad := range []string{"", "x", forge(tok), tok[:64], tok + "A", lengthen(tok)} {
		_, ok := f.verify(s, bad, subject, now)
		require.False(t, ok, bad)
	}
	_, ok = f.verify(s, tok, [8]byte{}, now)
	require.False(t, ok, "another's")
	_, ok = f.verify(s, tok, subject, now+7200)
	require.False(t, ok, "expired")

	// The last token is known until another request is counted.
	f.next = served()
	a.show(byHeader, tok)
	a.brings = byHeader
	a.ask(1)
	last := a.w.header.Get(byHeader)
	key := func() uint64 {
		var block [aes.BlockSize]byte
		copy(block[:], []byte{10, 100, 100, 100})
		f.subject.Encrypt(block[:], block[:])
		return binary.LittleEndian.Uint64(block[8:]) ^ f.seed
	}()
	finds := func(text string) int {
		_, _, _, found := f.take(key, text, counts{}, int32(now/3600), now%3600)
		return found
	}
	for _, other := range []string{tok, forge(last), last + "A", last[:60]} {
		require.Equal(t, unknown, finds(other), other)
	}
	require.Equal(t, hasRoom, finds(last))
	require.Equal(t, unknown, finds(last), "a request more is counted than it says")
}

// The floor's refusal has our body, except for the number of units.
func TestFloorRefusesAsWeDo(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, 5 * time.Hour, 72 * time.Hour} {
		var bodies []string
		for _, b := range []builder{ours(), newFloor} {
			h := b(at(&now), terms{1, window, 1})
			for range 2 {
				w := post(h, address(0))
				if w.Code == http.StatusTooManyRequests {
					require.Equal(t, w.Header().Get("Content-Length"), strconv.Itoa(w.Body.Len()))
					bodies = append(bodies, regexp.MustCompile(`\d+ `).ReplaceAllString(w.Body.String(), "N "))
				}
			}
		}
		require.Len(t, bodies, 2)
		require.Equal(t, bodies[0], bodies[1])
		require.Contains(t, bodies[0], "Try again in N ")
	}
}

// Each of our rows sends the requests of its text: the decisions of the middleware say so.
func TestRequestsAreWhatTheySay(t *testing.T) {
	const n = 60
	noon := time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	for _, q := range requests {
		t.Run(q.name, func(t *testing.T) {
			require.False(t, seen[q.name])
			seen[q.name] = true
			require.NotEmpty(t, q.text)
			var told []middleware.Decision
			o := at(&noon)
			o.tell = func(_ context.Context, d middleware.Decision) { told = append(told, d) }
			a := q.open(o)
			told = nil
			figures := make(map[string]float64)
			require.NoError(t, failing(func() { a.slice(n)(func(unit string, figure float64) { figures[unit] = figure }) }))
			require.Len(t, figures, 2)
			kind, ours := strings.CutPrefix(q.name, ourName)
			if !ours {
				require.Empty(t, told)
				return
			}
			each := map[string]int{"-stack-two": 2, "-stack-four": 4}[kind]
			require.Len(t, told, n*max(1, each))
			identities := map[string]bool{}
			for _, d := range told {
				identities[d.Pseudonym()] = true
			}
			if q.beside == asFirst || q.beside == asMany {
				require.Len(t, identities, n)
			} else {
				require.Len(t, identities, 1)
			}
			for i, d := range told {
				require.Equal(t, q.beside != asRefused, d.Allowed)
				require.Nil(t, d.Offered)
				tokens, want := 1, error(nil)
				switch {
				case strings.HasSuffix(kind, "thousand") || strings.HasPrefix(kind, "-huge") && !strings.Contains(kind, "cookie"):
					tokens, want = 0, token.ErrMalformed
				case kind == "-huge-cookie" || strings.HasSuffix(kind, "-cookies"): // such a line is not searched
					tokens = 0
				case strings.Contains(kind, "forged") || strings.Contains(kind, "garbage"):
					tokens, want = 0, token.ErrForged
				case kind == "-foreign":
					tokens, want = 0, token.ErrForeign
				case kind == "-no-token" || kind == asFirst:
					tokens = 0
				case each > 0:
					want = token.ErrForeign // the other policy's
				case kind != "-hundred" && q.beside == asAllowed:
					// Counts go from instance to instance.
					if i > 0 {
						require.Equal(t, told[i-1].Limits()[0].Remaining-1, d.Limits()[0].Remaining)
					}
				}
				require.Equal(t, tokens, d.Tokens)
				require.ErrorIs(t, d.TokenErr, want)
			}
			require.Len(t, told[0].Limits(), map[string]int{"-two-limits": 2}[kind]+map[bool]int{true: 0, false: 1}[kind == "-two-limits"])
			if kind == "-tenant" {
				require.EqualValues(t, plenty(1).quota/2, told[0].Limits()[0].Quota)
			}
		})
	}
	for _, q := range requests {
		for _, name := range append(others, lowest) {
			require.True(t, seen[name+q.beside], q.name)
		}
	}
}

// A wrong answer ends the measurement.
func TestAskersNoticeWhatIsNotAsMeant(t *testing.T) {
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()[byHeader], w.Header()[setCookie] = []string{"x"}, []string{"x"}
		served().ServeHTTP(w, r)
	})
	once := 0
	sometimes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if once++; once != 3 {
			w.Header()[byHeader] = []string{"x"}
		}
		served().ServeHTTP(w, r)
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
		change  func(a *asker)
		report  string
	}{
		{"a refusal", refusing, func(*asker) {}, "answered 429 with 0 bytes"},
		{"no refusal", served(), func(a *asker) { a.want = http.StatusTooManyRequests }, "answered 200 with 2 bytes"},
		{"a token where none was accepted", both, func(a *asker) { a.brings = byHeader }, "answered 200"},
		{"no token", served(), func(a *asker) { a.brings = byBoth }, "answered 200"},
		{"an answer without one", sometimes, func(a *asker) { a.show(byHeader, "x"); a.brings, a.echoes = byHeader, true }, "4 of 5 answers brought a token"},
	} {
		a := newAsker(http.MethodPost, c.handler)
		c.change(a)
		a.run(5)
		require.ErrorContains(t, a.after(5), c.report, c.name)
		o, server := new(opening), httptest.NewServer(c.handler)
		t.Cleanup(server.Close)
		a = newAsker(http.MethodPost, dial(o, net.IPv4(127, 0, 0, 2), server.Listener.Addr().String()))
		if once = 0; c.name != "a refusal" {
			c.change(a)
		}
		a.run(5)
		require.ErrorContains(t, a.after(5), strings.Split(c.report, " with")[0], "%s, over HTTP", c.name)
		require.NoError(t, o.close())
	}
}

func TestPopulation(t *testing.T) {
	all := population(30_000)
	visit(all, ours()(new(opening), plenty(30_000)))
	addresses, tokens := map[string]bool{}, map[string]bool{}
	for _, c := range all {
		addresses[c.address], tokens[c.lines[0]] = true, true
	}
	require.Len(t, addresses, 30_000)
	require.Len(t, tokens, 30_000)
	require.Equal(t, "10.101.105.149:40000", address(150*150+5*150+49))
	require.Len(t, address(299_999_999), len(address(0)))
}

// Rows take turns in a new order each round, and add one figure for each group.
func TestTurns(t *testing.T) {
	var order strings.Builder
	var rows []row
	for _, name := range []string{"a", "b", "c"} {
		n := 0.
		rows = append(rows, row{name, func(add func(string, float64)) {
			order.WriteString(name)
			n++
			add("ns", n)
			add("n", n)
		}})
	}
	s := &settings{groups: 2, part: 1, progress: io.Discard}
	all, rounds := samples{}, map[string]bool{}
	s.play(t.Context(), "x", all, rows, 0)
	for range 50 {
		s.play(t.Context(), "x", samples{}, rows, 0)
	}
	for i := 0; i < order.Len(); i += 3 {
		round := order.String()[i : i+3]
		require.True(t, strings.Contains(round, "a") && strings.Contains(round, "b") && strings.Contains(round, "c"), round)
		rounds[round] = true
	}
	require.Greater(t, len(rounds), 1)
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, []float64{2, 5}, all[name]["n"], "medians")
		require.InDeltaSlice(t, []float64{1.2, 4.2}, all[name]["ns"], 1e-9, "10th percentiles")
	}
	require.Len(t, all[""]["others"], 2)
}

func TestSpread(t *testing.T) {
	s := make(samples)
	for i, f := range []float64{4, 1, 3, 2, 5} {
		s.add("a", "ns", f)
		s.add("b", "ns", 2*f)
		if i > 0 {
			s.add("c", "ns", f)
		}
	}
	s.add("a", "ns", math.NaN())
	s.add("a", "ns", math.Inf(1))
	require.Equal(t, "3 (2–4)", spread(s.figures("ns", "a"), "%.0f", 1))
	require.Equal(t, "0.50 (0.50–0.50)", spread(s.figures("ns/b", "a"), "%.2f", 1))
	require.Equal(t, "3 (2–4)", spread(s.figures("ns@a", "b"), "%.0f", 1))
	require.Equal(t, "–", spread(s.figures("ns/c", "a"), "%.2f", 1), "of other groups")
	require.Equal(t, "–", median(s.figures("ns", "unknown"), "%.0f", 1))
}

// Every counter counts the calls of many callers, key by key, and the time of its server is seen.
func TestEveryEngineCounts(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			o := new(opening)
			t.Cleanup(func() { require.NoError(t, o.close()) })
			able(t, func() {
				used, take := o.redisFor(e.name), e.open(o)
				errs := make([]error, 8)
				kit.Together(len(errs), func(i int) {
					for n := 0; n < 50 && errs[i] == nil; n++ {
						errs[i] = take([]string{"a", "b"}[(i+n)%2])
					}
				})
				check(errors.Join(errs...))
				require.Equal(t, strings.HasPrefix(e.name, "redis"), used()["server"] > 0)
			})
		})
	}
}

// A client that drops its tokens gets the limit from each process. A client that echoes them, or a fleet over one Redis, gets
// it once. Peers may admit a slack of two more.
func TestFleetsAdmit(t *testing.T) {
	for _, f := range fleets {
		if f.limiter == bare {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			times := 1
			if f.limiter == reference || f.limiter == ourName && !f.echoes {
				times = 2
			}
			able(t, func() {
				got := f.admits(t.Context(), 2)
				most := times * dropperQuota
				if f.limiter == ourName+"-peers" {
					most += 2
				}
				require.GreaterOrEqual(t, got, float64(times*dropperQuota))
				require.LessOrEqual(t, got, float64(most))
			})
		})
	}
}

// A quick run of everything: each table has its rows, and each row has all its figures.
func TestEverythingIsMeasured(t *testing.T) {
	kit.OnlyWhole(t, "starts a hundred processes")
	able(t, func() { o := new(opening); o.redisFor(redisRate); check(o.close()) })
	sizes := fleetSizes
	fleetSizes = []int{1, 2}
	t.Cleanup(func() { fleetSizes = sizes })
	dir := t.TempDir()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-quick", "-span", "1ms"}, &out, io.Discard))
	for name, want := range rowsOf() {
		at := regexp.MustCompile(`(?m)^(.*: )?` + name + `, \S+$`).FindStringIndex(out.String())
		require.NotNil(t, at, name)
		text, _, _ := strings.Cut(out.String()[at[1]:], "\n\n\n")
		page := filepath.Join(dir, "page.md")
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
		_, tables, err := pages.Read(page)
		require.NoError(t, err)
		require.NotEmpty(t, tables) // the last of a part is before the budgets
		head, rows := strings.Split(tables[0].Head, " | "), []string(nil)
		for _, row := range tables[0].Rows {
			rows = append(rows, row[0])
			for i, cell := range row[1:] {
				lacking := cell == "" || slices.Contains(strings.Fields(cell), "–")
				require.Equal(t, hasNone(name, row, head[i+1]), lacking, "%s: %s: %s: %q", name, row[0], head[i+1], cell)
			}
		}
		require.Equal(t, want, rows, name)
	}
	require.Regexp(t, regexp.MustCompile(`\| .tallystick-dropped 2. \|.*\| 200 \|`), out.String())
}

// hasNone reports whether a cell may lack its figure: for a server or a Redis that is not asked, and for no limiter.
func hasNone(table string, row []string, head string) bool {
	server, bare := strings.Contains(row[0], "redis"), strings.HasPrefix(row[0], "`none")
	return table != "budgets" && (strings.Contains(head, "server CPU") && !server || strings.HasPrefix(head, "of that Redis") && !server ||
		bare && (strings.Contains(head, "above") || strings.HasPrefix(head, "a client gets")))
}

// For profiles of one row. The command measures the tables.
func BenchmarkRequest(b *testing.B) {
	for _, q := range requests {
		b.Run(q.name, func(b *testing.B) {
			a := q.open(new(opening))
			b.ReportAllocs()
			for b.Loop() {
				a.fresh(1)
				a.run(1)
			}
		})
	}
}
