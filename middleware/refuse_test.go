// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/storeless"
)

// golden compares a body with a file in testdata. What depends on the jitter of
// Retry-After is written WAIT in the file.
func golden(t *testing.T, name string, resp *http.Response) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	body := bodyOf(t, resp)
	requireHeader(t, resp, "Content-Length", strconv.Itoa(len(body)), "X-Content-Type-Options", "nosniff", "Vary", "Accept")
	if wait := resp.Header.Get("Retry-After"); wait != "" {
		body = strings.Replace(body, "in "+wait+" second", "in WAIT second", 1)
	}
	require.Equal(t, string(want), body)
}

func refusal(t *testing.T, reason middleware.Reason, quiet bool, options ...option) *http.Response {
	t.Helper()
	cfg := contact(new(clock))
	cfg.Quiet, cfg.Cost = quiet, costOf
	cfg.Limits = append(cfg.Limits, middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 50, Window: time.Hour})
	switch reason {
	case middleware.CostAboveQuota:
		options = append(options, costing(6))
	case middleware.NegativeCost:
		options = append(options, costing(-1))
	case middleware.IdentityUnknown:
		options = append(options, func(r *http.Request) { r.RemoteAddr = "@" })
	case middleware.IdentityDenied:
		cfg.Identity = func(*http.Request) (middleware.Identity, error) {
			return middleware.Identity{}, &middleware.Denial{Status: http.StatusUnauthorized}
		}
	}
	h := newSite(t, cfg)
	if reason == middleware.OverLimit {
		require.Equal(t, 5, admitted(h, 5))
	}
	h.Spy.Calls.Store(0)
	resp := send(h, options...)
	require.Zero(t, h.Spy.Calls.Load())
	require.Equal(t, reason, h.Decisions.Last().Reason)
	require.Equal(t, resp.StatusCode, h.Decisions.Last().Status)
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	return resp
}

func TestRefusals(t *testing.T) {
	const iana = "https://iana.org/assignments/http-problem-types#"
	const ours = "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#"
	for _, test := range []struct {
		reason middleware.Reason
		status int
		kind   string
	}{
		{middleware.OverLimit, 429, iana + "quota-exceeded"},
		{middleware.CostAboveQuota, 403, ours + "cost-above-quota"},
		{middleware.IdentityUnknown, 403, ours + "identity-unknown"},
		{middleware.IdentityDenied, 401, "about:blank"},
		{middleware.NegativeCost, 500, "about:blank"},
	} {
		t.Run(string(test.reason), func(t *testing.T) {
			resp := refusal(t, test.reason, false)
			require.Equal(t, test.status, resp.StatusCode)
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			golden(t, string(test.reason)+".json", resp)

			var problem struct {
				Type     string
				Title    string
				Status   int
				Detail   string
				Violated []string `json:"violated-policies"`
			}
			decoder := json.NewDecoder(strings.NewReader(bodyOf(t, refusal(t, test.reason, false))))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&problem))
			require.Equal(t, test.kind, problem.Type)
			require.Equal(t, test.status, problem.Status)
			require.NotEmpty(t, problem.Title)

			page := refusal(t, test.reason, false, with("Accept", "text/html"))
			require.Equal(t, test.status, page.StatusCode)
			require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
			golden(t, string(test.reason)+".html", page)

			quiet := refusal(t, test.reason, true)
			require.Equal(t, test.status, quiet.StatusCode)
			require.NotContains(t, bodyOf(t, quiet), "contact", "no policy is named")
		})
	}
}

// A page tells people how long to wait in a unit that they would use.
func TestWaitIsSaidInWords(t *testing.T) {
	for window, want := range map[time.Duration][]string{
		time.Second:      {"1 second."},
		time.Minute:      {"second"},
		10 * time.Minute: {"10 minutes.", "11 minutes."},
		10 * time.Hour:   {"10 hours.", "11 hours."},
		48 * time.Hour:   {"2 days.", "3 days."},
		100 * time.Hour:  {"5 days."},
	} {
		cfg := contact(new(clock))
		cfg.Limits = []middleware.Limit{{Algorithm: storeless.LeakyBucket, Quota: 1, Window: window}}
		h, _ := limited(t, cfg)
		admitted(h, 1)
		body := bodyOf(t, send(h, with("Accept", "text/html")))
		found := false
		for _, words := range want {
			found = found || strings.Contains(body, words)
		}
		require.True(t, found, "%s: %s", window, body)
	}
}

// Whatever is wrong with a token, the response is, byte for byte, the one to a request that shows none.
func TestThreatsOfLeaks(t *testing.T) {
	tok, header, payload := handlers.Genuine(t, 5)
	h, _ := limited(t, contact(new(clock)))
	newsletter := contact(new(clock))
	newsletter.Policy = "newsletter"
	n, _ := limited(t, newsletter)
	bad := map[string]string{
		"malformed": "garbage",
		"oversized": tok + strings.Repeat("A", 600),
		"forged":    tok[:len(tok)-10] + "AAAAAAAAAA",
		"foreign":   spend(t, n, 5),
		"expired":   thief(t, header, strings.Replace(payload, `"exp":1`, `"exp":`, 1)),
		"stolen":    spend(t, h, 5, from("198.51.100.1")),
		"odd":       thief(t, header, strings.Replace(payload, `"t":[`, `"t":[[`, 1)),
	}
	for _, accept := range []string{"application/json", "text/html"} {
		response := func(options ...option) (http.Header, string) {
			h, _ := limited(t, contact(new(clock)))
			admitted(h, 5)
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, append(options, with("Accept", accept))...))
			body := strings.Replace(bodyOf(t, resp), "in "+resp.Header.Get("Retry-After"), "in WAIT", 1)
			resp.Header.Del("Retry-After") // has jitter
			return resp.Header, body
		}
		header, body := response()
		for reason, tok := range bad {
			t.Run("T45 "+reason+", "+accept, func(t *testing.T) {
				for _, how := range []option{showing(tok), showingCookie(tok)} {
					gotHeader, gotBody := response(how)
					require.Equal(t, header, gotHeader)
					require.Equal(t, body, gotBody)
				}
			})
		}
	}
	t.Run("T45 no address in a token", func(t *testing.T) {
		for _, plain := range []string{"203.0.113.1", "203", "cb007101", "ywBxAQ"} {
			require.NotContains(t, payload, plain)
		}
	})
	t.Run("T45 an admitted response does not tell either", func(t *testing.T) {
		for reason, tok := range bad {
			h, _ := limited(t, contact(new(clock)))
			without := send(h, from("192.0.2.7"))
			other, _ := limited(t, contact(new(clock)))
			require.Equal(t, without.Header, send(other, from("192.0.2.7"), showing(tok)).Header, reason)
		}
	})
}

func TestAcceptNegotiation(t *testing.T) {
	for accept, html := range map[string]bool{
		"":                 false,
		"*/*":              false,
		"text/html":        true,
		"TEXT/HTML":        true,
		"text/*":           true,
		"application/json": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,  // browsers
		"application/json, text/plain, */*":                                                     false, // axios
		"application/problem+json, text/html":                                                   false,
		"text/html;q=0.5, application/json;q=0.4":                                               true,
		"text/html;q=0.4, application/json;q=0.5":                                               false,
		"text/html;q=0.5, application/problem+json":                                             false,
		"text/html;q=0":                                false,
		"text/html;q=0, */*":                           false,
		"text/*;q=0.1, */*;q=0.2, text/html;q=0.3":     true,
		"application/*;q=0.9, text/html;q=0.8":         false,
		"*/*;q=0.1, application/json;q=0":              true,
		"text/html;level=1;q=0.7, application/*;q=0.6": true,
		"text/html ; Q=0.7 , application/json;q=0.6":   true,
		"text/html;q=nonsense":                         true,
		"text/html;q=2, application/json;q=0.9":        true,
		"text/html;q=0.0001, application/json;q=0.1":   true, // no qvalue: as if there were none
		"text/html;q=1.001, application/json":          false,
		"text/html;q=-1":                               true,
		"text/html;q":                                  true,
		"image/png":                                    false,
		";;,,;q=1,text/html":                           true,
	} {
		resp := refusal(t, middleware.OverLimit, false, with("Accept", accept))
		require.Equal(t, html, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), "%q", accept)
	}
	t.Run("several lines are one list", func(t *testing.T) {
		resp := refusal(t, middleware.OverLimit, false, with("Accept", "application/json;q=0.1", "Accept", "text/html"))
		require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	})
}

// A handler of the program's that sends no status has sent a refusal all the same.
func TestRefusalHandlerWithoutAStatus(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"text":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "later") }, http.StatusTooManyRequests},
		"nothing":          {func(http.ResponseWriter, *http.Request) {}, http.StatusTooManyRequests},
		"flushed":          {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, http.StatusTooManyRequests},
		"a hint before it": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, http.StatusTooManyRequests},
		"a status":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, http.StatusOK},
	} {
		for where, set := range map[string]func(*middleware.Config){
			"RefusalHandler": func(cfg *middleware.Config) { cfg.RefusalHandler = test.handler },
			"PageHandler":    func(cfg *middleware.Config) { cfg.PageHandler = test.handler },
		} {
			t.Run(where+", "+name, func(t *testing.T) {
				cfg := contact(new(clock))
				cfg.Limits[0].Quota = 1
				set(&cfg)
				server := serve(t, newLimiter(t, cfg).Handler(new(spy)))
				client := clientAt(t, "127.0.0.1")
				for _, want := range []int{http.StatusOK, test.want} {
					r, err := http.NewRequest(http.MethodPost, server.URL, http.NoBody)
					require.NoError(t, err)
					r.Header.Set("Accept", "text/html")
					resp, err := client.Do(r)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, want, resp.StatusCode)
				}
			})
		}
	}
}

// refusedWays are requests that are refused, each with a body of another length that is the same each time.
func refusedWays() [][]option {
	unknown := func(r *http.Request) { r.RemoteAddr = "@" }
	return [][]option{
		{costing(6)},
		{costing(-1)},
		{unknown},
		{costing(6), html},
		{costing(6), html, with("Accept-Language", "de")},
	}
}

// The body of a refusal is made in room that was another's before: each must be whole, and of
// its own request. A ResponseWriter that reads what it was given after Write has returned
// without an error breaks the contract of [io.Writer]: that is none of ours.
func TestBodiesOfRefusalsAtOnce(t *testing.T) {
	const clients, rounds = 64, 20
	cfg := contact(new(clock))
	cfg.Cost = costOf
	var want []string
	for _, way := range refusedWays() {
		want = append(want, bodyOf(t, send(newLimiter(t, cfg).Handler(new(spy)), way...)))
		require.NotEmpty(t, want[len(want)-1])
		require.NotContains(t, want[:len(want)-1], want[len(want)-1])
	}
	h := newLimiter(t, cfg).Handler(new(spy))
	var got [clients][]string
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			for j := range rounds {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
				from("203.0.113.1")(r)
				for _, option := range refusedWays()[(i+j)%len(want)] {
					option(r)
				}
				h.ServeHTTP(w, r)
				got[i] = append(got[i], w.Body.String())
			}
		})
	}
	all.Wait()
	for i := range got {
		for j, body := range got[i] {
			require.Equal(t, want[(i+j)%len(want)], body)
		}
	}
}

// A brokenOff is a writer that fails and still has what it was given to send, as that of HTTP/2
// has when the client resets the stream in the middle of it.
type brokenOff struct {
	sink
	given []byte
}

func (f *brokenOff) Write(b []byte) (int, error) {
	f.given = b
	return 0, errors.New("stream closed")
}

func TestBodyThatWasNotWrittenIsNotUsedAgain(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Cost = costOf
	h := newLimiter(t, cfg).Handler(new(spy))
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	from("203.0.113.1")(r)
	costing(6)(r)
	for range 100 { // a pool may drop what it is given: then nothing is used again
		w := &brokenOff{sink: sink{Fields: http.Header{}}}
		h.ServeHTTP(w, r)
		was := string(w.given)
		require.Contains(t, was, "cost-above-quota")
		require.Equal(t, http.StatusForbidden, send(h, func(r *http.Request) { r.RemoteAddr = "@" }).StatusCode)
		require.Equal(t, was, string(w.given), "the next client's body is sent to this one")
	}
}

// The response of each Reason has the fields that it must have, and no other.
func TestFieldsOfEachReason(t *testing.T) {
	const (
		policy  = "RateLimit-Policy "
		asked   = policy + "RateLimit " // the limits were
		token   = "Set-Cookie Tallystick-Token "
		refused = "Cache-Control "
		offered = refused + "Tallystick-Challenge "
	)
	var last middleware.Reason
	hear := func(cfg *middleware.Config) {
		cfg.OnDecision = func(_ context.Context, d middleware.Decision) { last = d.Reason }
	}
	plain := func(change func(*middleware.Config, *clock), options ...option) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			now := new(clock)
			cfg := contact(now)
			cfg.Cost = costOf
			change(&cfg, now)
			hear(&cfg)
			h, _ := limited(t, cfg)
			return send(h, options...)
		}
	}
	nobody := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, _ *clock) {
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, err }
		}
	}
	failing := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, now *clock) {
			l := newLedger(now)
			l.Fault = func(context.Context, int) error { return err }
			cfg.Exact = paid(now, l).Exact
		}
	}
	none := func(*middleware.Config, *clock) {}
	selling := func(mode middleware.Mode, play func(*testing.T, *site) *http.Response) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			cfg := challenging(new(clock), mode)
			cfg.MaxClients = 1
			s := newSite(t, cfg)
			resp := play(t, s)
			last = s.Decisions.Last().Reason
			return resp
		}
	}
	rows := map[middleware.Reason]struct {
		status int
		fields string
		play   func(*testing.T) *http.Response
	}{
		middleware.WithinLimits: {200, asked + token + "Cache-Control", plain(none)},
		middleware.OverLimit: {429, asked + refused + "Tallystick-Token Retry-After", func(t *testing.T) *http.Response {
			cfg := contact(new(clock))
			hear(&cfg)
			h, _ := limited(t, cfg)
			older := spend(t, h, 4)
			spend(t, h, 1)
			return send(h, showing(older))
		}},
		middleware.CostAboveQuota:      {403, asked + refused, plain(none, costing(6))},
		middleware.NegativeCost:        {500, refused, plain(none, costing(-1))},
		middleware.IdentityUnknown:     {403, refused, plain(nobody(nil))},
		middleware.IdentityUnavailable: {503, refused + "Retry-After", plain(nobody(middleware.ErrIdentityUnavailable))},
		middleware.IdentityDenied:      {401, refused + "WWW-Authenticate", plain(nobody(&middleware.Denial{Status: 401}))},
		middleware.NoToken:             {403, policy + offered, selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response { return send(s) })},
		middleware.SoldOut: {429, policy + refused + "Retry-After", selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response {
			s.M.SellOut(midnight, peerIdentity)
			return send(s)
		})},
		middleware.MemoryFull: {403, asked + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) (resp *http.Response) {
			for i := range 40 {
				who := from(strings.Replace("198.N.100.1", "N", string(rune('1'+i%9))+string(rune('0'+i/9)), 1))
				resp = send(s, who, proving(solved(t, fetched(s, who))))
			}
			return resp
		})},
		middleware.ProofReplayed: {403, asked + refused + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) *http.Response {
			proof := solved(t, fetched(s))
			require.Equal(t, http.StatusOK, send(s, proving(proof)).StatusCode)
			return send(s, proving(proof))
		})},
		middleware.TooManyAtOnce: {429, policy + refused + "Retry-After", func(t *testing.T) (resp *http.Response) {
			cfg := contact(new(clock))
			cfg.Concurrency = &middleware.Concurrency{Max: 1}
			hear(&cfg)
			m := newLimiter(t, cfg)
			send(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { resp = send(m.Handler(new(spy))) })))
			return resp
		}},
		middleware.TooEarly:    {425, policy + refused, plain(failing(nil), with("Early-Data", "1"))},
		middleware.Overloaded:  {503, policy + refused + "Retry-After", plain(failing(exact.ErrFull))},
		middleware.CounterDown: {503, policy + refused + "Retry-After Tallystick-Degraded", plain(failing(onFire(t.Context(), 0)))},
	}
	text, err := os.ReadFile("decision.go")
	require.NoError(t, err)
	for _, c := range regexp.MustCompile(`\t([A-Z]\w+) +Reason = "(.+)"`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, rows, middleware.Reason(c[2]), "a response of %s", c[1])
	}
	ours := strings.Fields(asked + token + offered + "Retry-After Tallystick-Degraded WWW-Authenticate")
	for reason, row := range rows {
		t.Run(string(reason), func(t *testing.T) {
			resp := row.play(t)
			require.Equal(t, reason, last)
			require.Equal(t, row.status, resp.StatusCode)
			for _, name := range ours {
				require.Equal(t, slices.Contains(strings.Fields(row.fields), name), len(resp.Header.Values(name)) > 0, "%s: %v", name, resp.Header)
			}
		})
	}
}
