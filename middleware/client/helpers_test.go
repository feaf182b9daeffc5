// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

var secret = bytes.Repeat([]byte("A7"), 16)

// tokenOf writes a token of a shared tally that no server signed.
func tokenOf(policy, tally string, n int) string {
	return rawToken(fmt.Sprintf(`{"aud":%q,"sub":%q,"n":%d}`, policy, tally, n))
}

// ownToken writes one of a tally that was bought.
func ownToken(policy, tally string, n int) string {
	return rawToken(fmt.Sprintf(`{"aud":%q,"fam":%q,"n":%d}`, policy, tally, n))
}

func rawToken(payload string) string {
	return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
}

// claims are the claims of tokenOf.
type claims struct {
	Policy string `json:"aud"`
	Tally  string `json:"sub"` // or "fam", of one that was bought
	N      int    `json:"n"`
}

func claimsOf(token string) claims {
	var c struct {
		claims
		Own string `json:"fam"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(raw, &c)
	}
	c.Tally = cmp.Or(c.Tally, c.Own)
	return c.claims
}

// inMemory serves requests without a network, for bubbles.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.WithContext(r.Context())
	if r.Body == nil {
		served.Body = http.NoBody // as a server has it
	}
	defer served.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, served)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// mode is when a limiter asks for a proof.
type mode int

const (
	newcomers mode = iota
	whenExhausted
	everyRequest
)

// limiter is a server with one policy, as far as a client can tell.
type limiter struct {
	t      testing.TB
	issuer *pow.Issuer
	policy string
	mode   mode
	quota  int    // of a tally
	work   uint64 // price
	quiet  bool   // no RateLimit fields
	silent bool   // no tokens
	delay  time.Duration

	mu       sync.Mutex
	used     map[string]int // by tally
	sold     map[string]bool
	requests int
	served   int
	proofs   int // accepted
	shown    [][]string
	bodies   []string
}

func newLimiter(t testing.TB, policy string, m mode, quota int) *limiter {
	issuer := kit.Must(pow.New(pow.Config{Secrets: [][]byte{secret}}))(t)
	return &limiter{
		t: t, issuer: issuer, policy: policy, mode: m, quota: quota, work: 256,
		used: map[string]int{}, sold: map[string]bool{},
	}
}

func (l *limiter) binding() pow.Binding {
	return pow.Binding{Client: []byte("192.0.2.1"), Route: l.policy}
}

func (l *limiter) challenge(w http.ResponseWriter) {
	c, err := l.issuer.Issue(time.Now(), l.binding(), l.work)
	if err != nil {
		l.t.Error(err)
	}
	w.Header().Set(pow.ChallengeField, c.Header())
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := l.decide(w, r)
	if status == http.StatusOK && l.delay > 0 {
		time.Sleep(l.delay)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, http.StatusText(status))
}

func (l *limiter) decide(w http.ResponseWriter, r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	l.bodies = append(l.bodies, string(body))
	l.shown = append(l.shown, r.Header.Values(tokenField))
	if !l.quiet {
		w.Header().Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=60", l.policy, l.quota))
	}
	proved := ""
	if proof := r.Header.Get(pow.ProofField); proof != "" {
		receipt, err := l.issuer.Verify(time.Now(), l.binding(), proof)
		if err != nil {
			l.t.Log("proof refused: ", err)
		} else {
			l.proofs++
			proved = hex.EncodeToString(receipt.ID[:])
		}
	}
	tallies := []string{"shared"}
	if l.mode == newcomers {
		tallies = nil
	}
	for _, token := range r.Header.Values(tokenField) {
		if c := claimsOf(token); c.Policy == l.policy && l.sold[c.Tally] {
			tallies = append(tallies, c.Tally)
		}
	}
	if l.mode == everyRequest && proved == "" || proved == "" && len(tallies) == 0 {
		l.challenge(w)
		return http.StatusForbidden
	}
	if proved != "" && l.mode != everyRequest {
		l.sold[proved] = true
		tallies = append(tallies, proved)
	}
	best := tallies[0]
	for _, f := range tallies {
		if l.used[f] <= l.used[best] {
			best = f
		}
	}
	if l.used[best] < l.quota {
		l.used[best]++
		l.served++
		l.token(w, best)
		return http.StatusOK
	}
	w.Header().Set("Retry-After", "60")
	l.token(w, best)
	if l.mode != everyRequest {
		l.challenge(w)
	}
	return http.StatusTooManyRequests
}

func (l *limiter) token(w http.ResponseWriter, tally string) {
	if !l.quiet {
		w.Header().Set("RateLimit", fmt.Sprintf("%q;r=%d", l.policy, l.quota-l.used[tally]))
	}
	switch {
	case l.silent:
	case l.sold[tally]:
		w.Header().Add(tokenField, ownToken(l.policy, tally, l.used[tally]))
	default:
		w.Header().Add(tokenField, tokenOf(l.policy, tally, l.used[tally]))
	}
}

// script answers the requests in turn; the last answer stays.
func script(answers ...http.HandlerFunc) (handler http.HandlerFunc, requests func() int) {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			answer := answers[min(n, len(answers)-1)]
			n++
			mu.Unlock()
			answer(w, r)
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return n
		}
}

// answer is a response with fields in pairs.
func answer(status int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "body of "+http.StatusText(status))
	}
}

// asking is a 403 with a fresh challenge of some work.
func asking(t testing.TB, work uint64) http.HandlerFunc {
	l := newLimiter(t, "contact", newcomers, 1)
	l.work = work
	return func(w http.ResponseWriter, _ *http.Request) {
		l.challenge(w)
		w.WriteHeader(http.StatusForbidden)
	}
}

// events collects what an observer is told.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) observe(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) actions() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []string
	for _, ev := range e.all {
		list = append(list, strings.TrimSuffix(string(ev.Action)+" "+string(ev.Reason), " "))
	}
	return list
}

// get sends a GET request.
func get(t testing.TB, rt http.RoundTripper, url string) *http.Response {
	t.Helper()
	return do(t, rt, request(t, http.MethodGet, url, nil))
}

// do sends a request and reads the response, whose body stays readable.
func do(t testing.TB, rt http.RoundTripper, req *http.Request) *http.Response {
	t.Helper()
	resp := kit.Must(rt.RoundTrip(req))(t)
	body := kit.Must(io.ReadAll(resp.Body))(t)
	require.NoError(t, resp.Body.Close())
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// request is one that a caller makes.
func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	return kit.Must(http.NewRequest(method, url, body))(t)
}

// herd sends n requests at once, each with a number and as prepared, and returns how many of each
// status came back, or 0 for an error.
func herd(ctx context.Context, t testing.TB, rt http.RoundTripper, n int, url string, prepare func(int, *http.Request) *http.Request) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var wg sync.WaitGroup
	for i := range n {
		req := request(t, http.MethodGet, url, nil).WithContext(ctx)
		req.Header.Set("Id", fmt.Sprint(i))
		if prepare != nil {
			req = prepare(i, req)
		}
		wg.Go(func() {
			status := 0
			if resp, err := rt.RoundTrip(req); err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	wg.Wait()
	return statuses
}

// burst sends n requests at once, and none is an error.
func burst(t testing.TB, rt http.RoundTripper, n int, url string) map[int]int {
	t.Helper()
	statuses := herd(t.Context(), t, rt, n, url, nil)
	if statuses[0] > 0 {
		t.Errorf("%d errors", statuses[0])
	}
	return statuses
}
