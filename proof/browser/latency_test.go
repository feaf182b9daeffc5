// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// A budget is the requests that follow each other, in rounds: no answer of a round goes out before all its requests
// have come. So what is in one round is really sent at once, and a request that is in no round fails the test when it
// comes. Nothing is measured by time: a busy machine changes no count.
type budget struct {
	t       *testing.T
	handler http.Handler

	mu     sync.Mutex
	rounds [][]string      // those that are to come; of the first, the requests that have not come
	gate   chan struct{}   // is closed when the first is complete
	aside  map[string]bool // requests that nothing may wait for: they get no answer before the end
	end    chan struct{}   // is closed at the end
	failed bool

	answered int // rounds
	bytes    int // of bodies
}

// newBudget has a server over HTTP/2, as browsers meet it today: over HTTP/1.1 they send six requests at once.
func newBudget(t *testing.T, handler http.Handler) (b *budget, url string) {
	t.Helper()
	b = &budget{t: t, handler: handler, gate: make(chan struct{}), end: make(chan struct{}), aside: map[string]bool{}}
	server := httptest.NewUnstartedServer(b)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(b.end) })
	return b, server.URL
}

// expect sets the rounds that follow.
func (b *budget) expect(rounds ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.rounds)
	b.answered = 0
	for _, round := range rounds {
		b.rounds = append(b.rounds, strings.Split(round, ", "))
	}
}

// done requires that all that was expected has come, and returns in how many rounds.
func (b *budget) done() int {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.rounds)
	require.False(b.t, b.failed)
	return b.answered
}

// come notes a request, and returns what its answer waits for.
func (b *budget) come(name string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		return nil
	}
	if len(b.rounds) > 0 {
		if at := slices.Index(b.rounds[0], name); at >= 0 {
			gate := b.gate
			if b.rounds[0] = slices.Delete(b.rounds[0], at, at+1); len(b.rounds[0]) == 0 {
				b.rounds, b.gate = b.rounds[1:], make(chan struct{})
				b.answered++
				close(gate)
			}
			return gate
		}
	}
	if b.aside[name] {
		return b.end
	}
	go b.giveUp("%s comes", name)
	return nil
}

// giveUp says what is wrong, and answers everything from now on.
func (b *budget) giveUp(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.failed {
		b.failed = true
		b.t.Errorf(format+", after %d rounds. What is awaited is %q", append(args, b.answered, b.rounds)...)
		close(b.gate)
	}
}

func (b *budget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/favicon.ico" {
		http.NotFound(w, r)
		return
	}
	name := r.Method + " " + path.Base(r.URL.Path)
	if gate := b.come(name); gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		case <-time.After(time.Minute):
			b.giveUp("%s waits, and what is awaited does not come", name)
		}
	}
	counted := &counting{ResponseWriter: w}
	b.handler.ServeHTTP(counted, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += counted.bytes
}

// trusting has a browser take the certificate of tests for a good one. What comes by one that is wrong, and only
// ignored, is not cached.
func trusting(t *testing.T) chromedp.ExecAllocatorOption {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	key := sha256.Sum256(server.Certificate().RawSubjectPublicKeyInfo)
	return chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:]))
}

// counting counts the bytes of a body.
type counting struct {
	http.ResponseWriter
	bytes int
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += n
	return n, err
}

// TestRequestsInARow holds what a visitor waits for, beside the work: at the default price the network is the wait.
// docs/forms.md promises these numbers.
func TestRequestsInARow(t *testing.T) {
	browser := launch(t, trusting(t))
	byDefault := func(c *middleware.Config) {
		if c.Challenge != nil && c.Challenge.Mode != middleware.EveryRequest {
			c.Challenge.Work = 0
		}
	}
	t.Run("a page", func(t *testing.T) {
		s := newWiki(t, byDefault)
		b, url := newBudget(t, s.Config.Handler)
		b.expect(
			"GET Ada",
			"GET page.css, GET tally.css, GET page.js, GET tally.js, GET fetch.js, GET texts.js, GET solver.js",
			"POST redeem",
			"GET Ada",
		)
		p := open(t, browser, "about:blank")
		p.do(chromedp.Navigate(url + "/wiki/Ada"))
		p.wait(opened)
		require.Equal(t, 4, b.done())
		t.Logf("a page: %d requests in a row, %d bytes", b.done(), b.bytes)
		s.clean()
	})
	t.Run("a page without a waiting room", func(t *testing.T) {
		s := newWiki(t, byDefault, noRoom) // its refusal sets no cookie that could come back
		b, url := newBudget(t, s.Config.Handler)
		b.expect(
			"GET Ada",
			"GET page.css, GET tally.css, GET page.js, GET tally.js, GET fetch.js, GET texts.js, GET solver.js",
			"POST redeem",
			"GET challenge",
			"GET Ada",
		)
		p := open(t, browser, "about:blank")
		p.do(chromedp.Navigate(url + "/wiki/Ada"))
		p.wait(opened)
		require.Equal(t, 5, b.done())
	})
	t.Run("a form", func(t *testing.T) {
		doc := kit.Must(os.ReadFile("../../docs/forms.md"))(t)
		snippet := regexp.MustCompile("(?s)```html\n(.*?)```").FindSubmatch(doc)
		require.NotNil(t, snippet)
		s := newSite(t, byDefault)
		s.mux.Handle("GET /form", static("html", "<!doctype html><title>form</title>\n"+string(snippet[1])))
		b, url := newBudget(t, s.Config.Handler)
		b.expect("GET form", "GET tally.css, GET tally.js, GET fetch.js, GET texts.js, GET solver.js")
		p := open(t, browser, url+"/form")
		require.Equal(t, 2, b.done())
		t.Logf("a form, until it is ready: %d requests in a row, %d bytes", b.done(), b.bytes)

		b.aside["GET solver.js"] = true // of the other workers
		b.expect("GET challenge, GET solver.js", "POST redeem", "POST signup")
		p.click("form > button")
		p.wait(thanked)
		require.Equal(t, 3, b.done())
		t.Logf("a form, after the click: %d requests in a row, %d bytes in all", b.done(), b.bytes)
		require.True(t, s.got()[0].own)
		s.clean()
	})
}

// TestOldChallenge: a challenge that came with a page may be too old when it is used. It is refused, and the next one
// is solved.
func TestOldChallenge(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	b := open(t, browser, s.URL+"/signup")
	b.module()
	b.run(`fetch("/tally/signup/challenge").then((r) => r.json()).then(({ challenge }) => { window.challenge = challenge; })`)
	clock.Advance(time.Minute)
	require.Equal(t, "expired", eval[string](b, `prove("/tally/signup/", { challenge, onagain: (reason) => { window.again = reason; } }).then(() => again)`))
	require.Len(t, b.loaded("/redeem"), 2)
	require.Len(t, b.loaded("/challenge"), 1, "the refusal has another")
	b.send("#send")
	require.True(t, s.got()[0].own)
	require.Len(t, b.loaded("/redeem"), 2)
}
