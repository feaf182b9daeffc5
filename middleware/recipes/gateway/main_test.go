// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/kit"
)

// A site is a gateway before a model, by a clock that only the test moves.
type site struct {
	url     string
	release func() // a model that holds its answers goes on
	done    chan struct{}

	mu   sync.Mutex
	now  time.Time
	got  string // the last body that the model got
	held int    // how many answers it holds
	sent int    // how many requests clients have sent
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func (s *site) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newSite(t *testing.T, upstream string) *site {
	t.Helper()
	s := &site{now: loopback.Start, done: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.done) })
	if upstream == "" {
		upstream = loopback.Serve(t, http.HandlerFunc(s.model))
	}
	limit := kit.Must(newLimits(middleware.Config{
		Secrets:        [][]byte{loopback.Secret},
		Now:            s.clock,
		RefusalHandler: http.HandlerFunc(refuse),
		Exact:          &middleware.Exact{Counter: memory.New(0, s.clock), Outage: middleware.FailClosed, Deadline: 10 * time.Second},
		Logger:         slog.New(slog.DiscardHandler),
	}, func(key string) (string, bool) { return strings.CutPrefix(key, "sk-") }))(t)
	at := kit.Must(url.Parse(upstream))(t)
	h := gateway(limit, at, "of the gateway")
	s.url = loopback.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" { // a client that waits tells the clock
			ms, _ := strconv.ParseFloat(r.FormValue("ms"), 64)
			s.wait(time.Duration(ms * float64(time.Millisecond)))
			return
		}
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.release) // first: servers wait for requests
	return s
}

// model answers as OpenAI's API does. The message says how many tokens it uses, as "use 42", or what else it does.
func (s *site) model(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = string(body)
	s.mu.Unlock()
	var asked struct {
		Stream        bool `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct{ Content string } `json:"messages"`
	}
	_ = json.Unmarshal(body, &asked)
	what := ""
	if len(asked.Messages) > 0 {
		what = asked.Messages[0].Content
	}
	tokens := int64(42)
	_, _ = fmt.Sscanf(what, "use %d", &tokens)
	w.Header().Set("X-Ratelimit-Remaining-Tokens", "of the gateway's own account")
	if r.Header.Get("Authorization") != "Bearer of the gateway" || what == "fail" {
		http.Error(w, `{"error":{"message":"The model has failed."}}`, http.StatusInternalServerError)
		return
	}
	usage := fmt.Sprintf(`{"prompt_tokens":2,"completion_tokens":%d,"total_tokens":%d}`, tokens-2, tokens)
	if what == "hold" {
		s.mu.Lock()
		s.held++
		s.mu.Unlock()
	}
	if !asked.Stream {
		if what == "hold" {
			<-s.done
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Tally."},"finish_reason":"stop"}],"usage":%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	chunk := func(choices, usage string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s],"usage":%s}`+"\n\n", choices, usage)
		_ = http.NewResponseController(w).Flush()
	}
	for _, word := range []string{"Tal", "ly", "."} {
		chunk(`{"index":0,"delta":{"content":"`+word+`"}}`, "null")
	}
	if what == "hold" {
		select {
		case <-s.done:
		case <-r.Context().Done():
			return
		}
	}
	if asked.StreamOptions.IncludeUsage {
		chunk("", usage)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// ask has a customer ask the model. more is more of the body.
func (s *site) ask(t *testing.T, key, what, more string) loopback.Answer {
	t.Helper()
	return loopback.Send(t, http.MethodPost, s.url, ask(what, more), "Authorization", "Bearer "+key)
}

func ask(what, more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + what + `"}]` + more + `}`
}

// estimated is what such a request may cost.
func estimated(what, more string, answer int64) int64 {
	return 1 + int64(len(ask(what, more)))/4 + answer
}

// left is how many tokens the gateway says are left.
func left(t *testing.T, a loopback.Answer, unit string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Remaining-"+unit), 10, 64)
	require.NoError(t, err, a.Header)
	return n
}

// A request is charged what it may cost, and settled when the model has said what it has cost.
func TestARequestIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		what, more string
		answer     int64 // that is estimated
		status     int
		used       int64
	}{
		"an answer":                   {"use 42", "", usual, 200, 42},
		"of a length":                 {"use 42", `,"max_tokens":500`, 500, 200, 42},
		"of a length, newer":          {"use 42", `,"max_completion_tokens":700,"max_tokens":500`, 700, 200, 42},
		"a length in other letters":   {"use 42", `,"max_tokens":500,"MAX_TOKENS":1`, 500, 200, 42},
		"a length that comes twice":   {"use 42", `,"max_tokens":1,"max_tokens":500`, 500, 200, 42},
		"a length that is none":       {"use 42", `,"max_tokens":"1","n":{}`, usual, 200, 42},
		"several answers":             {"use 42", `,"max_tokens":500,"n":3`, 1500, 200, 42},
		"more than was estimated":     {"use 5000", `,"max_tokens":10`, 10, 200, 5000},
		"a length below none":         {"use 42", `,"max_tokens":-500,"n":-3`, usual, 200, 42},
		"a stream":                    {"use 42", `,"stream":true`, usual, 200, 42},
		"a stream that tells":         {"use 42", `,"stream":true,"stream_options":{"include_usage":true}`, usual, 200, 42},
		"a stream without options":    {"use 42", `,"stream":true,"stream_options":null`, usual, 200, 42},
		"a stream with other options": {"use 42", `,"stream":true,"stream_options":{"include_obfuscation":false}`, usual, 200, 42},
		"a failure":                   {"fail", "", usual, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "")
			a := s.ask(t, "sk-ada", c.what, c.more)
			require.Equal(t, c.status, a.Status, a.Body)
			require.Equal(t, 90_000-estimated(c.what, c.more, c.answer), left(t, a, "Tokens"))
			require.EqualValues(t, 59, left(t, a, "Requests"))
			require.Empty(t, a.Header.Get("Set-Cookie"))
			next := s.ask(t, "sk-ada", "use 1", "")
			require.Equal(t, 90_000-c.used-estimated("use 1", "", usual), left(t, next, "Tokens"))
			other := s.ask(t, "sk-bob", "use 1", "")
			require.Equal(t, 90_000-estimated("use 1", "", usual), left(t, other, "Tokens"))
		})
	}
}

// The model is asked for the usage of every stream. The client gets its event only if it has asked for it.
func TestStreamsArePassedOn(t *testing.T) {
	for more, events := range map[string]int{
		``: 4, // three words and the end
		`,"stream_options":{"include_usage":false,"x":1}`: 4,
		`,"stream_options":{"include_usage":true}`:        5,
	} {
		s := newSite(t, "")
		a := s.ask(t, "sk-ada", "use 42", `,"stream":true,"seed":12345678901234567`+more)
		require.Contains(t, s.got, `"include_usage":true`)
		require.Contains(t, s.got, `"seed":12345678901234567`, "nothing else is changed")
		require.Equal(t, strings.Contains(more, `"include_usage":true`), strings.Contains(a.Body, "total_tokens"))
		require.Equal(t, events, strings.Count(a.Body, "data: "), a.Body)
		require.True(t, strings.HasSuffix(a.Body, "data: [DONE]\n\n"))
	}
}

// What is no request of a model is not passed on, and not counted.
func TestWhatIsNoRequest(t *testing.T) {
	s := newSite(t, "")
	for body, status := range map[string]int{
		"":                             http.StatusBadRequest,
		"[1]":                          http.StatusBadRequest,
		`{"model":"m"`:                 http.StatusBadRequest,
		strings.Repeat(" ", maxBody+1): http.StatusRequestEntityTooLarge,
	} {
		a := loopback.Send(t, http.MethodPost, s.url, body, "Authorization", "Bearer sk-ada")
		require.Equal(t, status, a.Status)
		require.Contains(t, a.Body, `"type":"invalid_request_error"`)
	}
	require.Empty(t, s.got)
	require.EqualValues(t, 59, left(t, s.ask(t, "sk-ada", "use 42", ""), "Requests"))
}

// A client that hangs up is charged about what it has got.
func TestAClientThatHangsUp(t *testing.T) {
	s := newSite(t, "")
	r := kit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(ask("hold", `,"stream":true`))))(t)
	r.Header.Set("Authorization", "Bearer sk-ada")
	resp := kit.Must(http.DefaultTransport.RoundTrip(r))(t)
	kit.Must(io.ReadFull(resp.Body, make([]byte, 300)))(t)
	require.NoError(t, resp.Body.Close())
	used := int64(len(ask("hold", `,"stream":true`)))/4 + 3
	require.Eventually(t, func() bool {
		return left(t, s.ask(t, "sk-ada", "use 0", ""), "Tokens") == 90_000-used-estimated("use 0", "", usual)
	}, 10*time.Second, 10*time.Millisecond)
}

// Where the model does not answer at all, the client is charged nothing.
func TestTheModelIsAway(t *testing.T) {
	s := newSite(t, "http://127.0.0.1:"+kit.FreePort(t))
	for range 70 {
		a := s.ask(t, "sk-ada", "use 42", "")
		require.Equal(t, http.StatusBadGateway, a.Status)
		require.Contains(t, a.Body, `"type":"server_error"`)
	}
}

// What the tokens refuse is no request: one decision charges both, or none.
func TestARefusedRequestIsNotCounted(t *testing.T) {
	s := newSite(t, "")
	a := s.ask(t, "sk-ada", "use 90000", "")
	require.EqualValues(t, 59, left(t, a, "Requests"))
	for range 3 {
		require.Equal(t, http.StatusTooManyRequests, s.ask(t, "sk-ada", "use 1", "").Status)
	}
	s.wait(time.Minute)
	for range 2 {
		a = s.ask(t, "sk-ada", "use 0", "")
	}
	require.EqualValues(t, 58, left(t, a, "Requests"))
}
