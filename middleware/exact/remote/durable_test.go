// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// An edge is a Durable Object in a process of its own, by a clock of the test. As a transport it leads there.
type edge struct {
	*exactkit.Server
	now   func() time.Time
	conns http.Transport
}

func startEdge(t *testing.T, now func() time.Time) *edge {
	e := &edge{Server: startWorkerd(t, clocked, t.TempDir()), now: now}
	t.Cleanup(e.conns.CloseIdleConnections)
	return e
}

func (e *edge) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = e.Addr()
	r.Header["Clock"] = []string{strconv.FormatInt(e.now().UnixMicro(), 10)}
	return e.conns.RoundTrip(r)
}

// again kills it, and starts it anew: it knows what is in its storage.
func (e *edge) again() {
	e.Kill()
	e.Start()
	e.conns.CloseIdleConnections()
}

// The Durable Object is a counter: the whole suite, nothing left out.
func TestTheDurableObjectCounts(t *testing.T) {
	kit.Outside(t) // of our own code this meets no more than TestCounter does
	kit.OnlyWhole(t, "keeps each key of the suite in a file of its own; the random calls are its cheap form")
	clock := exacttest.NewClock()
	w := &wire{to: startEdge(t, clock.Now)}
	cfg := secrets
	cfg.Transport, cfg.Now = w, clock.Now
	require.NoError(t, (&exacttest.Suite{
		Open:       func() (exact.Counter, error) { return remote.Open([]string{"http://edge/"}, cfg) },
		Clock:      clock,
		LoseAnswer: w.loses,
	}).Test())
}

// Accounts are a counter of package exact's accounts, and of nothing else.
type accounts struct {
	now func() time.Time
	of  map[string]*engine.Account
}

func (a *accounts) account(p *exact.Policy, key string) *engine.Account {
	name := p.AccountName(key)
	if a.of[name] == nil {
		a.of[name] = new(engine.Account)
	}
	return a.of[name]
}

func (a *accounts) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	return a.account(call.Policy, call.Key).Take(a.now(), &call), nil
}

func (a *accounts) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	return a.account(call.Policy, call.Key).Peek(a.now(), &call), nil
}

func (a *accounts) Refund(_ context.Context, r exact.Receipt) error {
	return a.account(r.Policy, r.Key).Refund(a.now(), &r)
}

// Both owners answer random calls by the same bytes, of policies whose limits change on the
// way, by a clock that steps ahead and back. The Durable Object is killed again and again: it
// knows from its storage what the other has in memory.
func TestTheDurableObjectAnswersByteForByte(t *testing.T) {
	clock := exacttest.NewClock()
	edge := startEdge(t, clock.Now)
	h := kit.Must(remote.Serve(&accounts{now: clock.Now, of: map[string]*engine.Account{}}, remote.Config{Secrets: secrets.Secrets, Now: clock.Now}))(t)

	var sent []byte
	answers := map[string]int{}
	cfg := secrets
	cfg.Now = clock.Now
	cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		sent = body
		here := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		there, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.String(), bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		here.Header, there.Header = r.Header, r.Header.Clone() // the edge adds its clock
		want := httptest.NewRecorder()
		h.ServeHTTP(want, here)
		resp, err := edge.RoundTrip(there)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(got, want.Body.Bytes()) {
			return nil, fmt.Errorf("%s\nis answered\n%s, want\n%s", body, got, want.Body.Bytes())
		}
		var is struct {
			Verdicts []struct {
				Error                          string
				Admitted, Impossible, Replayed bool
			}
		}
		if err := json.Unmarshal(got[bytes.IndexByte(got, ' '):], &is); err != nil {
			return nil, err
		}
		answers[fmt.Sprintf("%+v", is.Verdicts[0])]++
		return want.Result(), nil
	})
	c := open(t, cfg, "http://edge/")
	steps := 6000
	if kit.Brief() {
		steps = 1500
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var policies []*exact.Policy
	for range 40 {
		policies = append(policies, randomPolicy(t, rng))
	}
	var receipts []exact.Receipt
	for step := range steps {
		if step%400 == 399 {
			edge.again()
		}
		call := exact.Call{Key: strconv.Itoa(rng.IntN(5)), Cost: 1 + rng.Int64N(4), Policy: policies[rng.IntN(len(policies))]}
		if rng.IntN(3) == 0 {
			call.ID = strconv.Itoa(rng.IntN(10))
		}
		var err error
		switch n := rng.IntN(100); {
		case n < 12:
			clock.Advance(time.Duration(rng.Int64N(int64(time.Minute/time.Microsecond))) * time.Microsecond)
			continue
		case n < 14:
			clock.Advance(time.Duration(rng.Int64N(int64(40*time.Hour/time.Microsecond))-int64(20*time.Hour/time.Microsecond)) * time.Microsecond)
			continue
		case n < 20:
			_, err = c.Peek(t.Context(), call)
		case n < 35 && len(receipts) > 0:
			r := receipts[max(0, len(receipts)-1-rng.IntN(20))]
			r.Cost = 1 + rng.Int64N(r.Cost)
			if r.Costs != ([storeless.MaxLimits]int64{}) {
				for i := range r.Costs {
					r.Costs[i] = rng.Int64N(r.Costs[i] + 1)
				}
				r.Cost = max(1, slices.Max(r.Costs[:])) // of none the whole receipt
			}
			if err = c.Refund(t.Context(), r); errors.Is(err, exact.ErrNoRefund) {
				err = nil
			}
		case n < 45:
			call.Past, call.Cost = true, 1+rng.Int64N(30)
			fallthrough
		case n < 47:
			if n >= 45 {
				call.Pause, call.Cost = time.Duration(1+rng.Int64N(20_000_000))*time.Microsecond, 0
			}
			fallthrough
		default:
			if n > 60 && !call.Past && call.Pause == 0 {
				ahead := call
				ahead.Ahead = time.Duration(1+rng.Int64N(3_600_000_000)) * time.Microsecond
				if ahead.Check(t.Context()) == nil {
					call = ahead
				}
			}
			if n%2 == 0 && call.Ahead == 0 && call.Pause == 0 {
				for i := range call.Policy.Len() {
					call.Costs[i] = rng.Int64N(call.Cost + 1)
				}
				call.Costs[rng.IntN(call.Policy.Len())] = call.Cost
			}
			var v exact.Verdict
			if v, err = c.Take(t.Context(), call); err == nil && v.Receipt.Policy != nil {
				receipts = append(receipts, v.Receipt)
			}
		}
		require.NoError(t, err, "step %d, %s", step, sent)
	}
	for _, want := range []string{
		"{Error: Admitted:true Impossible:false Replayed:false}", "{Error: Admitted:false Impossible:false Replayed:false}",
		"{Error: Admitted:false Impossible:true Replayed:false}", "{Error: Admitted:true Impossible:false Replayed:true}",
		"{Error:no-refund Admitted:false Impossible:false Replayed:false}",
	} {
		require.Greater(t, answers[want], steps/200, "%s in %v", want, answers)
	}
}

// asking is a request with one call, for a policy of one fixed window of some days.
func asking(t *testing.T, at time.Time, quota, days int64, call map[string]any) string {
	call["policy"] = 0
	body := kit.Must(json.Marshal(map[string]any{
		"at": at.UnixMilli(), "calls": []any{call},
		"policies": []any{map[string]any{"name": "api", "limits": []any{map[string]any{"name": "api", "algorithm": "fixed-window", "quota": quota, "window": 86400 * days}}}},
	}))(t)
	return string(body)
}

// A key knows each ID for ten seconds, however many there are, and is busy beyond a bound: it
// never forgets one early, with which a recorded request would be charged again.
func TestTheDurableObjectForgetsNoIDEarly(t *testing.T) {
	clock := exacttest.NewClock()
	owner := startEdge(t, clock.Now)
	ask := func(from, n int) string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(from + i)))
		}
		return asked(t, owner, secret("a"), asking(t, clock.Now(), 1<<20, 1, map[string]any{"op": "take", "wait": 1000, "key": "azE", "cost": 1, "ids": ids}))
	}
	fresh := func(from, n int) {
		text := ask(from, n)
		require.Equal(t, n, strings.Count(text, `"admitted":true`))
		require.NotContains(t, text, "replayed")
	}
	for n := range 255 {
		fresh(n*256, 256)
	}
	fresh(255*256, 128)
	require.Contains(t, ask(1<<16-128, 256), `"error":"busy"`, "there is room for half of them, and so for none")
	fresh(1<<16-128, 128)
	require.Contains(t, ask(1<<16, 256), `"error":"busy"`)
	clock.Advance(10*time.Second - 1000)
	require.Contains(t, ask(1<<16-1, 256), `"error":"busy"`, "one of them would be the first of two")
	require.Equal(t, 256, strings.Count(ask(0, 256), `"replayed":true`))
	clock.Advance(1000)
	text := ask(0, 256)
	require.NotContains(t, text, "replayed")
	require.Contains(t, text, fmt.Sprintf(`"limits":[[%d,`, 1<<20-1<<16-1), "what was refused as busy was not counted")
}

// A body that does not come is not waited for.
func TestTheDurableObjectWaitsForNoBody(t *testing.T) {
	edge := startWorkerd(t, clocked, t.TempDir())
	for what, came := range map[string]string{"nothing": "", "some": "x"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // which it does not know of
		defer cancel()
		body, more := io.Pipe()
		defer context.AfterFunc(ctx, func() { _ = more.Close() })() // net/http waits for what it reads
		defer more.Close()
		go func() { _, _ = io.WriteString(more, came) }()
		r := kit.Must(http.NewRequestWithContext(ctx, http.MethodPost, at(edge.Addr()), body))(t)
		r.Header = signedBy(secret("a"), "recorded")
		r.Header.Set("Patience", "20")
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err, what)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, what)
	}
}

// A key without a count that still matters leaves nothing behind, and a key that was only refused
// or looked at never did. What still counts is kept, and looked at again later.
func TestTheDurableObjectForgetsAKey(t *testing.T) {
	clock := exacttest.NewClock()
	edge := startEdge(t, clock.Now)
	cfg := secrets
	cfg.Now, cfg.Transport = clock.Now, edge
	c := open(t, cfg, "http://edge/")
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1, Window: time.Minute})
	wake := func(want string) {
		t.Helper()
		_, text := exchange(t, edge, http.MethodPost, "http://edge/", http.Header{"Wake": {"api aw"}}, nil) // policy and key, as they are on the wire
		require.JSONEq(t, want, text)
	}
	take := func(cost int64, admitted bool) {
		t.Helper()
		require.Equal(t, admitted, exactkit.Take(t, c, exact.Call{Key: "k", Cost: cost, Policy: p}).Admitted)
	}
	const year = 365 * 24 * time.Hour
	exactkit.Peek(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	take(2, false)
	wake(`{"tables":0,"again":false}`)
	for range 2 {
		take(1, true)
		wake(`{"tables":4,"again":true}`)
		take(1, false)
		clock.Advance(2*time.Minute - time.Microsecond) // a count is kept for a window more
		wake(`{"tables":4,"again":true}`)
		clock.Advance(year)
		wake(`{"tables":4,"again":true}`) // a clock that is ahead for a moment is not believed
		clock.Advance(-year)
		wake(`{"tables":4,"again":true}`)
		clock.Advance(time.Microsecond)
		wake(`{"tables":4,"again":true}`)
		clock.Advance(time.Minute - time.Microsecond)
		wake(`{"tables":4,"again":true}`) // a window more
		edge.again()
		clock.Advance(time.Microsecond)
		wake(`{"tables":0,"again":false}`)
	}
	edge.again()
	take(1, true)
}

// What comes back takes a kilobyte of a key's storage at most, and comes back once if it is of
// the last charges: as a list of all receipts says, also when the object begins again.
func TestTheDurableObjectKeepsWhatCameBack(t *testing.T) {
	clock := exacttest.NewClock()
	edge := startEdge(t, clock.Now)
	type receipt struct{ Serial, At string }
	var all []receipt
	ask := func(op string, more map[string]any) (is struct {
		Error    string
		Receipts []receipt
	}) {
		q := map[string]any{"op": op, "wait": 1000, "key": "azE", "cost": 2}
		maps.Copy(q, more)
		var said struct {
			Verdicts []struct {
				Error   string
				Receipt receipt
			}
		}
		require.NoError(t, json.Unmarshal([]byte(asked(t, edge, secret("a"), asking(t, clock.Now(), 1<<30, 30, q))), &said))
		for _, v := range said.Verdicts {
			is.Error = v.Error
			is.Receipts = append(is.Receipts, v.Receipt)
		}
		return is
	}
	look := func(query string) string {
		_, text := exchange(t, edge, http.MethodPost, "http://edge/", http.Header{"Look": {"api azE"}, "Query": {query}}, nil)
		return text
	}
	rng := rand.New(rand.NewPCG(1, 5))
	back := map[int]bool{}
	said := map[string]int{}
	refund := func(i int) {
		want := ""
		switch {
		case len(all)-i > engine.Refundable:
			want = "late-refund"
		case back[i]:
			want = "no-refund"
		}
		is := ask("refund", map[string]any{"cost": 1, "receipt": map[string]any{"serial": all[i].Serial, "at": all[i].At}})
		require.Equal(t, want, is.Error, "%d of %d", i, len(all))
		back[i] = true
		said[want]++
	}
	batches := 24
	if !kit.Whole() {
		batches = 12 // and still more charges than can be given back
	}
	for batch := range batches {
		clock.Advance(exact.IDLife)
		for range 4 {
			ids := make([]string, 256)
			for i := range ids {
				ids[i] = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(len(all) + i)))
			}
			is := ask("take", map[string]any{"ids": ids})
			require.Len(t, is.Receipts, len(ids))
			all = append(all, is.Receipts...)
		}
		for range 60 {
			refund(max(0, len(all)-1-rng.IntN(9000)))
		}
		if batch%6 == 5 {
			edge.again()
		}
	}
	for range 2 {
		for i := range 3 {
			refund(len(all) - engine.Refundable - 1 + i)
			refund(len(all) - 1 - i)
		}
		edge.again()
	}
	require.Greater(t, said["late-refund"], 10)
	require.Greater(t, said["no-refund"], 10)
	require.JSONEq(t, `[{"n":1,"size":1024}]`, look("SELECT count(*) AS n, length(bits) AS size FROM back"))
}

// randomPolicy returns one of a few shapes with quotas of its own.
func randomPolicy(t testing.TB, rng *rand.Rand) *exact.Policy {
	var limits []storeless.Limit
	buckets := rng.IntN(2) == 0
	for i := range 1 + rng.IntN(3) {
		l := storeless.Limit{Name: strconv.Itoa(i), Quota: 1 + rng.Int64N(12), Window: []time.Duration{7 * time.Second, time.Minute, 24 * time.Hour}[rng.IntN(3)]}
		l.Algorithm = storeless.Algorithm(rng.IntN(int(storeless.RollingDay) + 1))
		if buckets {
			l.Algorithm = storeless.TokenBucket + storeless.Algorithm(rng.IntN(2))
		}
		switch l.Algorithm {
		case storeless.TokenBucket:
			l.Burst = 1 + rng.Int64N(12)
		case storeless.RollingDay:
			l.Window = 24 * time.Hour
		}
		if !buckets && rng.IntN(4) == 0 {
			l = storeless.Limit{Name: l.Name, Quota: l.Quota, Calendar: []string{"day", "week", "month"}[rng.IntN(3)], Zone: []string{"", "Europe/Berlin", "Asia/Kathmandu"}[rng.IntN(3)]}
		}
		if rng.IntN(8) == 0 && l.Algorithm != storeless.SlidingLog {
			l.Quota = storeless.MaxQuota - rng.Int64N(1000)
		}
		limits = append(limits, l)
	}
	return exactkit.Compile(t, limits...)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
