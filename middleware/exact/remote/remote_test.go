// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func secret(name string) []byte { return []byte(strings.Repeat(name, 32)) }

var secrets = remote.Config{Secrets: [][]byte{secret("a")}}

// owner serves a counter, and returns its URL.
func owner(t testing.TB, counter exact.Counter, cfg remote.Config) string {
	t.Helper()
	h := kit.Must(remote.Serve(counter, cfg))(t)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func open(t testing.TB, cfg remote.Config, owners ...string) engine.CounterCloser {
	t.Helper()
	c := kit.Must(remote.Open(owners, cfg))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A wire is a transport whose answers can be lost, and that keeps what was sent.
type wire struct {
	to http.RoundTripper // nil for net/http's

	mu    sync.Mutex
	lose  int
	sent  [][]byte
	heads []http.Header
	fault func(*http.Response)
}

var errLost = errors.New("the answer is lost")

// loses has the next answer be lost.
func (w *wire) loses(exact.Counter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = 1
}

// exchange sends a request of a header and a body, and returns what is answered.
func exchange(t *testing.T, by http.RoundTripper, method, url string, header http.Header, body io.Reader) (status int, text string) {
	t.Helper()
	r := kit.Must(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	if header != nil {
		r.Header = header.Clone()
	}
	resp := kit.Must(by.RoundTrip(r))(t)
	defer resp.Body.Close()
	b := kit.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	to := w.to
	if to == nil {
		to = http.DefaultTransport
	}
	resp, err := to.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent, w.heads = append(w.sent, b), append(w.heads, r.Header)
	if w.lose > 0 {
		w.lose--
		_ = resp.Body.Close()
		return nil, errLost
	}
	if w.fault != nil {
		w.fault(resp)
	}
	return resp, nil
}

// Every call does what the counter behind it does, over one owner and over three.
func TestCounter(t *testing.T) {
	for _, n := range []int{1, 3} {
		if n == 1 && !kit.Whole() {
			continue // one of three owners is one
		}
		clock := exacttest.NewClock()
		cfg := secrets
		cfg.Now = clock.Now // it is the counter's
		var owners []string
		for range n {
			owners = append(owners, owner(t, memory.New(0, clock.Now), cfg))
		}
		w := new(wire)
		cfg.Transport = w
		require.NoError(t, (&exacttest.Suite{
			Open:       func() (exact.Counter, error) { return remote.Open(owners, cfg) },
			Clock:      clock,
			LoseAnswer: w.loses,
		}).Test())
	}
}

// A request that was recorded is worth nothing, sent again at once, or later.
func TestARecordedRequestIsWorthNothing(t *testing.T) {
	clock := exacttest.NewClock()
	counter := memory.New(0, clock.Now)
	w := new(wire)
	cfg := secrets
	cfg.Transport, cfg.Now = w, clock.Now
	url := owner(t, counter, remote.Config{Secrets: cfg.Secrets, Now: clock.Now})
	c, p := open(t, cfg, url), exactkit.PerHour(t, 100)
	left := func() int64 {
		return exactkit.Peek(t, counter, exact.Call{Key: "k", Cost: 1, Policy: p}).Limits[0].Remaining
	}
	v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 10, Policy: p})
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 7, Past: true, Policy: p})
	v.Receipt.Cost = 4
	require.NoError(t, c.Refund(t.Context(), v.Receipt))
	exactkit.Take(t, c, exact.Call{Key: "k", Pause: time.Second, Policy: p})
	clock.Advance(2 * time.Second)
	want := left()
	require.EqualValues(t, 100-10-7+4, want)
	require.Len(t, w.sent, 4)
	for _, later := range []time.Duration{0, time.Second, time.Second, time.Second, 10 * time.Second, time.Minute} {
		clock.Advance(later)
		for i, body := range w.sent {
			status, _ := exchange(t, http.DefaultTransport, http.MethodPost, url, w.heads[i], bytes.NewReader(body))
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, want, left())
		}
	}
}

// A request that was recorded is worth nothing to an owner that was started again either,
// though its counter may have forgotten the ID with its process.
func TestARecordedRequestIsWorthNothingAfterARestart(t *testing.T) {
	clock := exacttest.NewClock()
	w := new(wire)
	cfg := secrets
	cfg.Transport, cfg.Now = w, clock.Now
	serving := remote.Config{Secrets: cfg.Secrets, Now: clock.Now}
	c, p := open(t, cfg, owner(t, memory.New(0, clock.Now), serving)), exactkit.PerHour(t, 100)
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 10, Policy: p})
	clock.Advance(time.Second)
	again := memory.New(0, clock.Now)
	url := owner(t, again, serving)
	_, text := exchange(t, http.DefaultTransport, http.MethodPost, url, w.heads[0], bytes.NewReader(w.sent[0]))
	require.Contains(t, text, `"error":"stale"`)
	require.EqualValues(t, 100, exactkit.Left(t, again, exact.Call{Key: "k", Cost: 1, Policy: p}))

	// Where the owner's clock steps back behind its beginning, it goes on.
	clock.Advance(-time.Hour)
	v := kit.Must(open(t, cfg, url).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.True(t, v.Admitted)
	clock.Advance(time.Hour)

	// A caller whose clock is behind asks once more, and is heard.
	cfg.Now = func() time.Time { return clock.Now().Add(-3 * time.Second) }
	v = kit.Must(open(t, cfg, url).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.True(t, v.Admitted)
}

// No log of a handler shows its keys.
func TestAHandlerDoesNotShowItsKeys(t *testing.T) {
	h := kit.Must(remote.Serve(memory.New(1, nil), secrets))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s"} {
		require.Equal(t, "remote.Serve", fmt.Sprintf(verb, h), verb)
	}
}

// No caller is heard without a secret, and nothing is believed that was changed on the way.
func TestOnlyWhoHasASecretIsHeard(t *testing.T) {
	counter := memory.New(0, nil)
	url := owner(t, counter, secrets)
	p := exactkit.PerHour(t, 5)
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	untouched := func() {
		require.EqualValues(t, 5, exactkit.Left(t, counter, call))
	}
	_, err := open(t, remote.Config{Secrets: [][]byte{secret("b")}}, url).Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	require.ErrorContains(t, err, url+": exact: may have been counted: it answers 401: its secrets differ")
	untouched()

	// An answer is changed, cut, or belongs to another call.
	w := new(wire)
	cfg := secrets
	cfg.Transport = w
	c := open(t, cfg, url)
	var earlier []byte
	for what, fault := range map[string]func(body []byte) []byte{
		"changed":       func(b []byte) []byte { return bytes.Replace(b, []byte("admitted"), []byte("Admitted"), 1) },
		"cut":           func(b []byte) []byte { return b[:len(b)-2] },
		"empty":         func([]byte) []byte { return nil },
		"an empty line": func(b []byte) []byte { return append([]byte("\n"), b...) },
		"without a MAC": func(b []byte) []byte { return b[44:] },
		"of another":    func(b []byte) []byte { earlier = b; return b },
	} {
		w.fault = func(resp *http.Response) {
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			resp.Body = io.NopCloser(bytes.NewReader(fault(b)))
		}
		_, err := c.Peek(t.Context(), call)
		if what == "of another" {
			require.NoError(t, err)
			w.fault = func(resp *http.Response) {
				resp.Body = io.NopCloser(bytes.NewReader(earlier))
			}
			_, err = c.Peek(t.Context(), exact.Call{Key: "another", Cost: 1, Policy: p})
		}
		require.ErrorIs(t, err, exact.ErrMaybeCounted, what)
	}
	untouched()
}

// Secrets are rotated in three steps, and no call fails on the way.
func TestRotation(t *testing.T) {
	old, next := secret("a"), secret("b")
	steps := [][][]byte{{old}, {old, next}, {next, old}, {next}}
	counter := memory.New(0, nil)
	p := exactkit.PerHour(t, 100)
	for i := range steps {
		for _, j := range []int{i, i + 1, i - 1} { // some ends are a step ahead or behind
			if j < 0 || j >= len(steps) {
				continue
			}
			url := owner(t, counter, remote.Config{Secrets: steps[i]})
			_, err := open(t, remote.Config{Secrets: steps[j]}, url).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
			require.NoError(t, err, "owner at %d, caller at %d", i, j)
		}
	}
}

// Clocks that do not agree cost one more round trip, once.
func TestClocksNeedNotAgree(t *testing.T) {
	clock := exacttest.NewClock() // it stands: what a busy machine takes does not make it agree less
	url := owner(t, memory.New(0, clock.Now), remote.Config{Secrets: secrets.Secrets, Now: clock.Now})
	for _, off := range []time.Duration{-time.Hour, -5 * time.Second, 3 * time.Second, 5 * time.Second, 24 * time.Hour} {
		w := new(wire)
		cfg := secrets
		cfg.Transport, cfg.Now = w, func() time.Time { return clock.Now().Add(off) }
		c, p := open(t, cfg, url), exactkit.PerHour(t, 100)
		for range 5 {
			require.True(t, exactkit.Take(t, c, exact.Call{Key: off.String(), Cost: 1, Policy: p}).Admitted)
		}
		extra := 0
		if off.Abs() > 4*time.Second {
			extra = 1
		}
		require.Len(t, w.sent, 5+extra, off)
	}
}

// An owner that is not there has counted nothing; one that hangs may have.
func TestOwnersThatDoNotAnswer(t *testing.T) {
	p := exactkit.PerHour(t, 5)
	gone := httptest.NewServer(nil)
	gone.Close()
	_, err := open(t, secrets, gone.URL).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrNotCounted)

	// The caller gives up when the owner has the call: before, it has not counted.
	hang := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(hang)
	_, err = open(t, secrets, hangs.URL).Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	require.ErrorIs(t, err, context.Canceled)
}

// What a counter says of itself arrives: load is load, and a mistake is one.
func TestErrorsOfTheCounter(t *testing.T) {
	p := exactkit.PerHour(t, 5)
	for _, want := range []error{exact.ErrFull, exact.ErrBusy, exact.ErrContended, exact.ErrNotCounted, exact.ErrMaybeCounted, exact.ErrNoRefund, exact.ErrLateRefund} {
		url := owner(t, failing(want), secrets)
		c := open(t, secrets, url)
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, c.Refund(t.Context(), exact.Receipt{Key: "k", Cost: 1, Policy: p, Serial: "1"}), want)
		require.Equal(t, errors.Is(want, exact.ErrNotCounted), errors.Is(err, exact.ErrNotCounted))
	}
	_, err := open(t, secrets, owner(t, failing(errors.New("disk on fire: key secret")), secrets)).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	require.NotContains(t, err.Error(), "secret", "errors of engines stay where they are")
}

// failing is a counter that fails.
func failing(err error) taking {
	return taking{take: func(context.Context, exact.Call) (exact.Verdict, error) { return exact.Verdict{}, err }, refunds: err}
}

// The deadline of a call is the owner's too: a call without a waiter is not begun.
func TestTheDeadlineArrives(t *testing.T) {
	left := make(chan time.Duration, 1)
	url := owner(t, taking{take: func(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
		ends, _ := ctx.Deadline()
		left <- time.Until(ends)
		return exact.Verdict{}, exact.ErrBusy
	}}, secrets)
	const all = 9 * time.Second // of ten that an owner would wait by itself
	ctx, cancel := context.WithTimeout(t.Context(), all)
	defer cancel()
	_, err := open(t, secrets, url).Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 1)})
	require.ErrorIs(t, err, exact.ErrBusy)
	require.LessOrEqual(t, <-left, all)
}

// A connection that was kept turns out to be closed, after the owner has done what was asked. A
// call is made once more, unseen, and counted once. A refund is not: that there was nothing to
// give back would be the answer.
func TestAConnectionThatWasClosed(t *testing.T) {
	counter := memory.New(0, nil)
	inner := kit.Must(remote.Serve(counter, secrets))(t)
	var closing atomic.Bool
	var kept sync.Map // connections by their addresses: on a busy machine net/http keeps one that it used, or does not
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := kept.LoadOrStore(r.RemoteAddr, true); again && closing.CompareAndSwap(true, false) {
			inner.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	const quota = 1000
	c, call := open(t, secrets, server.URL), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, quota)}
	v := exactkit.Take(t, c, call)
	taken := int64(1)
	for closing.Store(true); closing.Load(); taken++ {
		require.Less(t, taken, int64(20), "no connection is kept")
		v = exactkit.Take(t, c, call)
	}
	require.True(t, v.Admitted && v.Replayed)
	require.EqualValues(t, quota-taken, v.Limits[0].Remaining)
	for tries := 1; ; tries++ {
		require.Less(t, tries, 20, "no connection is kept")
		closing.Store(true)
		err := c.Refund(t.Context(), v.Receipt)
		if !closing.Swap(false) {
			require.ErrorIs(t, err, exact.ErrMaybeCounted)
			require.ErrorIs(t, c.Refund(t.Context(), v.Receipt), exact.ErrNoRefund, "it was")
			return
		}
		require.NoError(t, err)
		v = exactkit.Take(t, c, call)
	}
}

// Each key has one owner, whatever the order of the list; keys are spread evenly, and an
// owner more takes keys from the others and moves no other.
func TestEveryKeyHasOneOwner(t *testing.T) {
	urls := []string{"http://a/", "http://b/", "http://c/", "http://d/"}
	p := exactkit.PerHour(t, 1)
	where := func(n int, key string, order ...int) string {
		var list []string
		for _, i := range order[:n] {
			list = append(list, urls[i])
		}
		return list[open(t, secrets, list...).(engine.Partitioned).Part(exact.Call{Key: key, Policy: p})]
	}
	owned := map[string]int{}
	for i := range 400 {
		key := "key " + strconv.Itoa(i)
		of3 := where(3, key, 0, 1, 2)
		require.Equal(t, of3, where(3, key, 2, 0, 1))
		if of4 := where(4, key, 0, 1, 2, 3); of4 != urls[3] {
			require.Equal(t, of3, of4)
		}
		owned[of3]++
	}
	for _, n := range owned {
		require.InDelta(t, 400/3, n, 50)
	}
}

func TestProblemsOfAConfig(t *testing.T) {
	_, err := remote.Open([]string{"ftp://x/", "http://a/", "http://a/", "http://u:p@b/"}, remote.Config{Secrets: [][]byte{[]byte("short"), secret("a")}})
	for _, want := range []string{"owners[0]", "owners[2]: is the same as owners[1]", "owners[3]", "Secrets[0]: must be at least 32 random bytes, not 5: `openssl rand -base64 32` makes one"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "short")
	_, err = remote.Open(nil, remote.Config{})
	require.ErrorContains(t, err, "owners: must be at least one URL")
	_, err = remote.Serve(nil, remote.Config{})
	require.ErrorContains(t, err, "Secrets: must be 1 to 4, not 0")
	require.ErrorContains(t, err, "the counter to be served is nil")
	require.Equal(t, "remote.Config", fmt.Sprintf("%+v", secrets))
}

// Every error of a call names the owner that was asked, whatever is wrong with it, and no query.
func TestErrorsNameTheOwner(t *testing.T) {
	p := exactkit.PerHour(t, 5)
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hung.CloseClientConnections()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	counter := memory.New(0, nil)
	for name, tc := range map[string]struct {
		url, says string
		is        error
	}{
		"it hangs":                 {hung.URL, "context deadline exceeded", exact.ErrMaybeCounted},
		"no owner is there":        {gone.URL, "connection refused", exact.ErrNotCounted},
		"something else is there":  {other.URL, "the answer, with status 404, is not signed", exact.ErrMaybeCounted},
		"it has another secret":    {owner(t, counter, remote.Config{Secrets: [][]byte{secret("b")}, Logger: silent}), "it answers 401", exact.ErrMaybeCounted},
		"it is full":               {owner(t, failing(exact.ErrFull), secrets), "full of live keys", exact.ErrFull},
		"an owner without a clock": {owner(t, counter, remote.Config{Secrets: secrets.Secrets, Now: wandering()}), `the owner says "stale"`, exact.ErrNotCounted},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, secrets, tc.url+"/counter?key=hidden")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done := make(chan error, 3)
			for range cap(done) { // the first is sent by itself
				go func() {
					_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: p})
					done <- err
				}()
			}
			for range cap(done) {
				err := <-done
				require.ErrorContains(t, err, tc.url+"/counter: exact: ")
				require.NotContains(t, err.Error(), "hidden")
				if !strings.Contains(err.Error(), "deadline") {
					require.ErrorIs(t, err, tc.is)
					require.ErrorContains(t, err, tc.says)
				}
			}
		})
	}
}

// wandering is a clock that is a minute further each time.
func wandering() func() time.Time {
	var n atomic.Int64
	began := time.Now()
	return func() time.Time { return began.Add(time.Duration(n.Add(1)) * time.Minute) }
}

var silent = slog.New(slog.DiscardHandler)

// The owner tells once a minute that a caller has another secret, in the words of docs/checks.md. It does not tell of
// strangers that do not speak as a caller does.
func TestTheOwnerTellsOfOtherSecrets(t *testing.T) {
	page := kit.Must(os.ReadFile("../../../docs/checks.md"))(t)
	var said bytes.Buffer
	var late atomic.Int64
	cfg := remote.Config{Secrets: secrets.Secrets, Logger: slog.New(slog.NewTextHandler(&said, nil)), Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) }}
	url := owner(t, memory.New(0, nil), cfg)
	status, _ := exchange(t, http.DefaultTransport, http.MethodPost, url, http.Header{"Tallystick-Mac": {"x"}}, strings.NewReader("{}"))
	require.Equal(t, http.StatusUnauthorized, status)
	require.Empty(t, said.String())
	theirs := open(t, remote.Config{Secrets: [][]byte{secret("b")}}, url)
	ask := func() {
		_, err := theirs.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 5)})
		require.ErrorContains(t, err, "its secrets differ")
	}
	ask()
	ask()
	line := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(said.String(), "")
	require.Contains(t, string(page), "\n### remote-secret-unknown\n\n```text\n"+line+"```\n", "once a minute: %s", line)
	late.Store(int64(time.Minute))
	ask()
	require.Equal(t, 2, strings.Count(said.String(), "remote-secret-unknown remedy"))
}

// What a full counter says of when there is room comes along.
func TestAFullOwnerSaysWhenThereIsRoom(t *testing.T) {
	full := taking{take: func(context.Context, exact.Call) (v exact.Verdict, err error) {
		v.Wait = 3 * time.Hour
		return v, exact.ErrFull
	}}
	v, err := open(t, secrets, owner(t, full, secrets)).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerHour(t, 5)})
	require.ErrorIs(t, err, exact.ErrFull)
	require.Equal(t, 3*time.Hour, v.Wait)
}
