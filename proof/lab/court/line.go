// SPDX-License-Identifier: Apache-2.0

package court

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
)

// A Line is a client's view of one policy of a stage. It is a fleet to package players.
type Line struct {
	*Stage
	Who
	Named bool                                // a proxy in front of the site names its address, which may be any
	Slow  bool                                // it reads answers so
	At    func(to int) string                 // where it sends; nil: as its stage says
	Base  func(from string) http.RoundTripper // its connections; nil: of its address
	Sent  *atomic.Int64                       // counts requests; may be nil

	mu    sync.Mutex
	known map[string]*http.Client // by the address
}

// A Client is one line, and what is known by it.
type Client struct {
	*players.Attacker
	*Line
	Token string // the newest, or its own tally's
}

// Client returns a client of a policy at some addresses, at a new one if there are none.
func (s *Stage) Client(name, policy string, from ...string) *Client {
	if from == nil {
		from = []string{s.Host()}
	}
	l := &Line{Stage: s, Who: Who{Name: name, Policy: policy}}
	return &Client{Line: l, Attacker: &players.Attacker{Fleet: (*seat)(l), From: from}}
}

// An Answer is all of it.
type Answer struct {
	fleet.Answer
	Trailer http.Header
	Body    string
}

// Told says how an answer was decided.
func Told(a fleet.Answer) string {
	return fmt.Sprintf("%d %s", a.Status, a.Header.Get(house.DecisionHeader))
}

// A seat is a line as a fleet.
type seat Line

func (s *seat) Instances() int { return len(s.where) }
func (s *seat) Fail(err error) { s.Stage.Fail(err) }

func (s *seat) Ask(r fleet.Request) fleet.Answer { return (*Line)(s).Say(r, "").Answer }

func (s *seat) Together(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Say sends a request with a body. The zero Answer is none.
func (l *Line) Say(r fleet.Request, body string) Answer {
	standing := l.Away.Now()
	a, err := l.Try(l.Ctx, r, strings.NewReader(body))
	if _, decided := house.Parse(a.Header); err == nil && a.Status >= http.StatusInternalServerError && !decided {
		err = fmt.Errorf("%s on /%s: %d", l.Name, l.Policy, a.Status)
	}
	if err != nil {
		l.Lost(l.Who, standing, err)
		return Answer{}
	}
	return a
}

// Try is Say for a request that may fail.
func (l *Line) Try(ctx context.Context, r fleet.Request, body io.Reader) (Answer, error) {
	at := l.Stage.At
	if l.At != nil {
		at = l.At
	}
	return l.Do(ctx, r, at(r.To)+"/"+l.Policy+r.Path, body)
}

// Do is Try with any URL.
func (l *Line) Do(ctx context.Context, r fleet.Request, url string, body io.Reader) (a Answer, err error) {
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, url, body)
	if err != nil {
		return a, err
	}
	req.Header = r.Header()
	if l.Sent != nil {
		l.Sent.Add(1)
	}
	resp, err := l.Via(r.From).Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	from := io.Reader(resp.Body)
	if l.Slow {
		from = io.TeeReader(from, sipping{})
	}
	text, err := io.ReadAll(from)
	return Answer{fleet.Answer{Status: resp.StatusCode, Header: resp.Header}, resp.Trailer, string(text)}, err
}

// sipping takes its time.
type sipping struct{}

func (sipping) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * 1500 * time.Nanosecond)
	return len(b), nil
}

// Via has the connections of the line from an address.
func (l *Line) Via(from string) *http.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[from] == nil {
		if l.known == nil {
			l.known = map[string]*http.Client{}
		}
		l.known[from] = &http.Client{Transport: l.Transport(func() string { return from })}
	}
	return l.known[from]
}

// Transport is the line as a transport, from an address that may change.
func (l *Line) Transport(from func() string) http.RoundTripper { return &witness{l, from, "", nil} }

// Polite returns the Go client of this repository, from an address that may change.
func (l *Line) Polite(from func() string) *http.Client {
	return &http.Client{Transport: &client.Transport{Base: l.Transport(from), MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}}
}

// Post sends one request of a polite client to the balancer, and returns the status of the answer; 0 if there is none.
func (l *Line) Post(polite *http.Client) (status int) {
	standing := l.Away.Now()
	resp, err := polite.Post(l.Stage.At(fleet.Balancer)+"/"+l.Policy, "", nil)
	if err == nil {
		status = resp.StatusCode
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		l.Lost(l.Who, standing, err)
	}
	return status
}

// A witness tells the oracle of requests and answers.
type witness struct {
	l    *Line
	from func() string
	was  string
	base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	from := w.from()
	base := w.dial(from)
	r = r.Clone(r.Context())
	r.Header.Set(house.ClientHeader, w.l.Name)
	if w.l.Named {
		r.Header.Set("X-Forwarded-For", from)
	}
	c := w.l.begin(&w.l.Who, from, r)
	var resp *http.Response
	var err error
	if w.l.Tamper != nil {
		resp = w.l.Tamper(r)
	}
	if resp == nil {
		resp, err = base.RoundTrip(r)
	}
	if c != nil {
		c.end(resp)
	}
	return resp, err
}

// dial returns the connections from an address.
func (w *witness) dial(from string) http.RoundTripper {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.base == nil || w.was != from {
		switch {
		case w.l.Base != nil:
			w.base = w.l.Base(from)
		case w.l.Named:
			w.base = w.l.named
		default:
			w.base = w.l.Dialer(from)
		}
		w.was = from
	}
	return w.base
}

// Lives returns the token of a client while that lives.
func (c *Client) Lives() string {
	if _, ends := fleet.Claims(c.Token); ends <= c.House.Clock.Load() {
		c.Token = "" // as a browser does with a cookie
	}
	return c.Token
}

// Send shows the token of an honest client while that lives, and keeps the next: its own tally's, if it has one.
func (c *Client) Send(to int, body string, fields ...string) Answer {
	a := c.Say(fleet.Request{To: to, From: c.Attacker.From[0], Tokens: []string{c.Lives()}, Fields: fields}, body)
	c.Keep(a.Token())
	return a
}

// Keep keeps a token, but for one of its address where it has a tally of its own.
func (c *Client) Keep(token string) {
	had, _ := fleet.Claims(c.Token)
	if own, _ := fleet.Claims(token); token != "" && (own != "" || had == "") {
		c.Token = token
	}
}

// Purchase buys a tally by the challenge of one instance at another one, and keeps its token.
func (c *Client) Purchase(seller, redeemer int) bool {
	token := c.Redeem(redeemer, "", c.Solve(c.Challenge(seller, "")))
	c.Keep(token)
	return token != ""
}
