// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// A server is a run of the demo on a free port, by a clock that stands still
// until it is moved.
type server struct {
	url     string
	seconds atomic.Int64  // Unix time
	stop    func()        // what a signal does
	done    chan struct{} // closed when run has returned
	err     error         // what it returned
}

// cheap is the price of a proof in tests: most of them test what follows a proof.
const cheap = 1 << 10

// start runs the demo with a fresh secret and cheap proofs.
func start(t *testing.T, instances int) *server {
	t.Helper()
	return startWith(t, standard(instances))
}

// standard has the longest deadline for the counter: a busy machine is no outage.
func standard(instances int) options {
	return options{instances: instances, work: cheap, crowd: 8, counter: "memory", deadline: 10 * time.Second}
}

// startWith runs the demo.
func startWith(t *testing.T, o options) *server {
	t.Helper()
	s := &server{done: make(chan struct{})}
	s.seconds.Store(1_800_000_000) // 08:00 UTC of a day, where a minute begins
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	output, stdout := io.Pipe()
	o.addr, o.stdout, o.log = "127.0.0.1:0", stdout, cmp.Or(o.log, slog.New(slog.DiscardHandler))
	o.now = func() time.Time { return time.Unix(s.seconds.Load(), 0) }
	go func() {
		defer close(s.done)
		s.err = run(ctx, o)
		_ = stdout.CloseWithError(s.err)
	}()
	s.listens(t, output)
	t.Cleanup(func() {
		stop()
		<-s.done
		require.NoError(t, s.err)
	})
	return s
}

// listens reads where a demo listens from what it prints, as a person would.
func (s *server) listens(t *testing.T, output io.Reader) {
	t.Helper()
	line := kit.Must(bufio.NewReader(output).ReadString('\n'))(t)
	require.Regexp(t, `^Listening on http://127\.0\.0\.1:\d+/\n$`, line)
	s.url = strings.TrimSuffix(strings.TrimPrefix(line, "Listening on "), "/\n")
}

// patient is when a test gives up on what is bound to come: a busy machine may take
// long, and no test judges how long.
const patient = 5 * time.Minute

// A client has an address and perhaps cookies.
type client struct {
	t    *testing.T
	http http.Client
	url  string
	last string // the newest token it was sent
}

// client returns a client that follows no redirects and keeps no cookies.
func (s *server) client(t *testing.T) *client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: s.url, http: http.Client{
		Transport:     transport,
		Timeout:       patient,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) withJar() *client {
	jar, err := cookiejar.New(nil)
	require.NoError(c.t, err)
	c.http.Jar = jar
	return c
}

// An answer is a response, read to its end.
type answer struct {
	*http.Response
	body string
}

// do sends a request with the given header fields, "Name: value".
func (c *client) do(method, path, body string, header ...string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return c.send(r)
}

func (c *client) send(r *http.Request) answer {
	c.t.Helper()
	response, err := c.http.Do(r)
	require.NoError(c.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	if token := response.Header.Get(middleware.TokenHeader); token != "" {
		c.last = token
	}
	return answer{response, string(content)}
}

const urlencoded = "Content-Type: application/x-www-form-urlencoded"

var (
	goodContact    = url.Values{"name": {"Ada"}, "email": {"ada@example.org"}, "message": {"Hello"}}.Encode()
	goodNewsletter = url.Values{"email": {"ada@example.org"}}.Encode()
	goodSignup     = url.Values{"name": {"Ada"}, "email": {"ada@example.org"}, "password": {"correct horse"}}.Encode()
	goodFeedback   = url.Values{"email": {"ada@example.org"}, "message": {"Hello"}}.Encode()
)

// contact sends a good contact form.
func (c *client) contact(header ...string) answer {
	c.t.Helper()
	return c.do("POST", "/contact", goodContact, append(header, urlencoded)...)
}

// echo sends a good contact form with the newest token.
func (c *client) echo(header ...string) answer {
	c.t.Helper()
	return c.contact(c.withToken(header)...)
}

// withToken adds the newest token, if there is one.
func (c *client) withToken(header []string) []string {
	if c.last != "" {
		header = append(header, middleware.TokenHeader+": "+c.last)
	}
	return header
}

// signup sends a good sign-up form with the newest token.
func (c *client) signup(header ...string) answer {
	c.t.Helper()
	return c.do("POST", "/signup", goodSignup, append(c.withToken(header), urlencoded)...)
}

// feedback sends a good feedback form.
func (c *client) feedback(header ...string) answer {
	c.t.Helper()
	return c.do("POST", "/feedback", goodFeedback, append(header, urlencoded)...)
}

func (c *client) newsletter(header ...string) answer {
	c.t.Helper()
	return c.do("POST", "/newsletter", goodNewsletter, append(header, urlencoded)...)
}

// admitted counts how many of n requests are answered 200; the rest must be 429.
func admitted(t *testing.T, n int, send func() answer) int {
	t.Helper()
	passed := 0
	for range n {
		switch a := send(); a.StatusCode {
		case http.StatusOK:
			passed++
		default:
			require.Equal(t, http.StatusTooManyRequests, a.StatusCode, a.body)
		}
	}
	return passed
}

// details are problem details, the site's own and the limiter's.
type details struct {
	Type     string            `json:"type"`
	Title    string            `json:"title"`
	Status   int               `json:"status"`
	Detail   string            `json:"detail"`
	Errors   map[string]string `json:"errors"`
	Violated []string          `json:"violated-policies"`

	Reason       middleware.Reason `json:"reason"`
	Challenge    string            `json:"challenge"`
	TTL          int64             `json:"ttl"`
	Work         *uint64           `json:"work"`
	ChallengeURL string            `json:"challenge-url"`
	RedeemURL    string            `json:"redeem-url"`
}

// details parses problem details.
func (a answer) details(t *testing.T) (p details) {
	t.Helper()
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"), a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &p), a.body)
	require.Equal(t, a.StatusCode, p.Status)
	require.NotEmpty(t, p.Title)
	return p
}
