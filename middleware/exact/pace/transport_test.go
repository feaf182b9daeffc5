// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A service answers as its script says, and then 200.
type service struct {
	mu     sync.Mutex
	script []*http.Response
	bodies []string
	at     []time.Time
	closed int // bodies of responses
}

type closing struct {
	io.Reader
	close func()
}

func (c closing) Close() error { c.close(); return nil }

func answer(status int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h}
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
		_ = r.Body.Close()
	}
	s.bodies, s.at = append(s.bodies, body), append(s.at, time.Now())
	resp := answer(200)
	if len(s.script) > 0 {
		resp, s.script = s.script[0], s.script[1:]
	}
	resp.Request, resp.Body = r, closing{strings.NewReader("words"), func() { s.closed++ }}
	return resp, nil
}

// A refusal stops every process, and not only the one that met it.
func TestTransportPassesOnWhatTheServiceSays(t *testing.T) {
	for name, c := range map[string]struct {
		answer      *http.Response
		least, most time.Duration
	}{
		"Retry-After":  {answer(429, "Retry-After", "20"), 20 * time.Second, 22 * time.Second},
		"unavailable":  {answer(503, "Retry-After", "5"), 5 * time.Second, 5500 * time.Millisecond},
		"nothing left": {answer(200, "RateLimit", `"default";r=0;t=9`), 9 * time.Second, 9900 * time.Millisecond},
		"no tokens":    {answer(200, "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "1m30s"), 90 * time.Second, 93 * time.Second},
		"mute":         {answer(429), time.Second, 1100 * time.Millisecond},
		"broken":       {answer(500), 0, 0},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			s := &service{script: []*http.Response{c.answer}}
			cfg := pace.Config{Counter: memory.New(0, nil), Limits: bucket(100, time.Second, 10), MaxWait: time.Hour}
			one := &pace.Transport{Pacer: process(t, cfg), Base: s}
			other := &pace.Transport{Pacer: process(t, cfg), Base: s}
			began := time.Now()
			req := kit.Must(http.NewRequest("GET", "http://models.example/", nil))(t)
			resp := kit.Must(one.RoundTrip(req))(t)
			require.Equal(t, c.answer.StatusCode, resp.StatusCode)
			for _, tr := range []*pace.Transport{other, one} {
				resp := kit.Must(tr.RoundTrip(req))(t)
				require.Equal(t, 200, resp.StatusCode)
				require.GreaterOrEqual(t, time.Since(began), c.least)
				require.LessOrEqual(t, time.Since(began), c.most)
			}
			require.Zero(t, s.closed, "the caller has the bodies")
		})
	}
}

func TestTransportRepeatsWhatIsSafe(t *testing.T) {
	refusal := func() *http.Response { return answer(429, "Retry-After", "2") }
	for name, c := range map[string]struct {
		method  string
		body    io.Reader
		fields  []string
		repeats int
		script  []*http.Response
		status  int
		bodies  []string
	}{
		"not asked for":          {"GET", nil, nil, 0, []*http.Response{refusal()}, 429, []string{""}},
		"once":                   {"GET", nil, nil, 1, []*http.Response{refusal()}, 200, []string{"", ""}},
		"once, and that is all":  {"GET", nil, nil, 1, []*http.Response{refusal(), refusal()}, 429, []string{"", ""}},
		"twice":                  {"GET", nil, nil, 3, []*http.Response{refusal(), answer(503)}, 200, []string{"", "", ""}},
		"a body":                 {"PUT", strings.NewReader("words"), nil, 1, []*http.Response{refusal()}, 200, []string{"words", "words"}},
		"no method":              {"", nil, nil, 1, []*http.Response{refusal()}, 200, []string{"", ""}},
		"a body that is gone":    {"PUT", io.MultiReader(strings.NewReader("words")), nil, 1, []*http.Response{refusal()}, 429, []string{"words"}},
		"a POST":                 {"POST", strings.NewReader("words"), nil, 1, []*http.Response{refusal()}, 429, []string{"words"}},
		"a PATCH":                {"PATCH", strings.NewReader("words"), nil, 1, []*http.Response{refusal()}, 429, []string{"words"}},
		"a POST that has a name": {"POST", strings.NewReader("words"), []string{"Idempotency-Key", `"7"`}, 1, []*http.Response{refusal()}, 200, []string{"words", "words"}},
		"not a refusal":          {"GET", nil, nil, 1, []*http.Response{answer(500, "Retry-After", "2")}, 500, []string{""}},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			s := &service{script: c.script}
			limit := bucket(1000, time.Hour, 50)
			memory := memory.New(0, nil)
			tr := &pace.Transport{Pacer: process(t, pace.Config{Counter: memory, Limits: limit}), Base: s, Repeats: c.repeats}
			req := kit.Must(http.NewRequest(c.method, "http://models.example/", c.body))(t)
			for i := 0; i < len(c.fields); i += 2 {
				req.Header.Set(c.fields[i], c.fields[i+1])
			}
			resp := kit.Must(tr.RoundTrip(req))(t)
			require.Equal(t, c.status, resp.StatusCode)
			body := kit.Must(io.ReadAll(resp.Body))(t)
			require.Equal(t, "words", string(body))
			require.Equal(t, c.bodies, s.bodies)
			require.Equal(t, len(c.bodies)-1, s.closed)
			if len(s.at) > 1 {
				require.GreaterOrEqual(t, s.at[1].Sub(s.at[0]), 2*time.Second)
			}
			time.Sleep(5 * time.Second) // in which the bucket gets one back
			require.InDelta(t, 50-len(c.bodies), left(t, memory, "", limit), 1, "each time is charged")
		})
	}
}

// What is not sent has its body closed, and the reason said.
func TestTransportThatMayNotSend(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := new(service)
		p := process(t, pace.Config{Counter: memory.New(0, nil), Limits: meter(1, time.Hour), Units: map[string]limits{"tokens": bucket(10, time.Hour, 10)}})
		tr := &pace.Transport{Pacer: p, Base: s, Costs: func(r *http.Request) []pace.Cost {
			return []pace.Cost{{Unit: "tokens", N: r.ContentLength}}
		}}
		closed := 0
		send := func(ctx context.Context, n int64) error {
			req, err := http.NewRequestWithContext(ctx, "POST", "http://models.example/", closing{strings.NewReader(strings.Repeat("x", int(n))), func() { closed++ }})
			require.NoError(t, err)
			req.ContentLength = n
			_, err = tr.RoundTrip(req)
			return err
		}
		require.ErrorIs(t, send(t.Context(), 11), pace.ErrImpossible)
		require.Equal(t, 1, closed)
		require.NoError(t, send(t.Context(), 7))
		require.Equal(t, 2, closed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var refused *pace.RefusedError
		require.ErrorAs(t, send(ctx, 1), &refused)
		require.Equal(t, 3, closed)
		require.Len(t, s.bodies, 1)

		req, err := http.NewRequestWithContext(ctx, "GET", "http://models.example/", nil)
		require.NoError(t, err)
		_, err = tr.RoundTrip(req)
		require.ErrorAs(t, err, &refused)
	})
}

func TestTransportReturnsTheErrorOfItsBase(t *testing.T) {
	broken := errors.New("broken")
	tr := &pace.Transport{Pacer: process(t, pace.Config{Counter: memory.New(0, nil), Limits: bucket(5, time.Minute, 5)}),
		Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken }), Repeats: 3}
	req, err := http.NewRequest("GET", "http://models.example/", nil)
	require.NoError(t, err)
	_, err = tr.RoundTrip(req)
	require.ErrorIs(t, err, broken)

	s := &service{script: []*http.Response{answer(503)}}
	tr.Base = s
	req = kit.Must(http.NewRequest("PUT", "http://models.example/", strings.NewReader("words")))(t)
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err, "the refusal is worth more")
	require.Equal(t, 503, resp.StatusCode)
	body := kit.Must(io.ReadAll(resp.Body))(t)
	require.Equal(t, "words", string(body))
}

// In an http.Client, over a real connection, which serves again.
func TestTransportInAClient(t *testing.T) {
	addresses, n := map[string]bool{}, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "words")
	}))
	defer server.Close()
	p := process(t, pace.Config{Counter: memory.New(0, nil), Limits: bucket(1000, time.Second, 10)})
	c := &http.Client{Transport: &pace.Transport{Pacer: p, Repeats: 1}}
	for tries := 1; len(addresses) != 1; tries++ {
		require.LessOrEqual(t, tries, 20, "a connection serves again, but one that a busy machine held while it was written to")
		clear(addresses)
		n = 0
		resp := kit.Must(c.Get(server.URL))(t)
		body := kit.Must(io.ReadAll(resp.Body))(t)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "words", string(body))
		require.Equal(t, 2, n)
		c.CloseIdleConnections()
	}

	idle := new(idleBase)
	(&pace.Transport{Pacer: p, Base: idle}).CloseIdleConnections()
	require.True(t, idle.closed)
	(&pace.Transport{Pacer: p, Base: new(service)}).CloseIdleConnections()
}

type idleBase struct {
	http.RoundTripper
	closed bool
}

func (b *idleBase) CloseIdleConnections() { b.closed = true }
