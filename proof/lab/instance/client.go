// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
)

// A Client is what a client sees of one route of a fleet of real servers. It is a fleet to package attackers.
type Client struct {
	Ctx    context.Context
	Name   string                         // by which the instances count it
	Policy string                         // whose route it is on
	At     func(to int) (base string)     // where an instance listens, and the balancer
	Size   func() int                     // of the fleet
	Via    func(from string) *http.Client // has the connections from an address
	Named  bool                           // a proxy in front of the site names it, see X-Forwarded-For
	Slow   bool                           // it reads answers so
	Sent   *atomic.Int64                  // counts requests; may be nil
	Failed func(error)                    // is told why a request was not answered; may be nil
}

// An Answer is all of it.
type Answer struct {
	fleet.Answer
	Trailer http.Header
	Body    string
}

// String says how it was decided.
func (a Answer) String() string { return Told(a.Answer) }

// Told says how an answer was decided.
func Told(a fleet.Answer) string {
	return fmt.Sprintf("%d %s", a.Status, a.Header.Get(DecisionHeader))
}

// Instances implements [fleet.Fleet].
func (c *Client) Instances() int { return c.Size() }

// Fail implements [fleet.Fleet].
func (c *Client) Fail(err error) {
	if c.Failed != nil {
		c.Failed(err)
	}
}

// Together implements [fleet.Fleet].
func (c *Client) Together(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Ask implements [fleet.Fleet].
func (c *Client) Ask(r fleet.Request) fleet.Answer { return c.Send(r, "").Answer }

// Send is Ask with a body, and all of the answer.
func (c *Client) Send(r fleet.Request, body string) Answer {
	a, err := c.Try(c.Ctx, r, strings.NewReader(body))
	if err != nil {
		c.Fail(err)
	}
	return a
}

// Try is Send for those who expect that it fails.
func (c *Client) Try(ctx context.Context, r fleet.Request, body io.Reader) (Answer, error) {
	return c.Do(ctx, r, c.At(r.To)+"/"+c.Policy+r.Path, body)
}

// Do is Try with any URL.
func (c *Client) Do(ctx context.Context, r fleet.Request, url string, body io.Reader) (a Answer, err error) {
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, url, body)
	if err != nil {
		return a, err
	}
	req.Header = r.Header()
	req.Header.Set(ClientHeader, c.Name)
	if c.Named {
		req.Header.Set("X-Forwarded-For", r.From)
	}
	if c.Sent != nil {
		c.Sent.Add(1)
	}
	resp, err := c.Via(r.From).Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	from := io.Reader(resp.Body)
	if c.Slow {
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
