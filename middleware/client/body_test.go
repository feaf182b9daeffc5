// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// plain hides what http.NewRequest knows how to rewind.
type plain struct {
	io.Reader
	closed atomic.Int32
}

func (p *plain) Close() error {
	p.closed.Add(1)
	return nil
}

func TestBodies(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*http.Request)
		want    int
		bodies  []string
	}{
		"none":    {func(*http.Request) {}, 200, []string{"", ""}},
		"no body": {func(r *http.Request) { r.Body = http.NoBody }, 200, []string{"", ""}},
		"GetBody": {func(r *http.Request) {
			r.Body = &plain{Reader: strings.NewReader("words")}
			r.GetBody = func() (io.ReadCloser, error) { return &plain{Reader: strings.NewReader("words")}, nil }
		}, 200, []string{"words", "words"}},
		"no GetBody": {func(r *http.Request) {
			r.Body = &plain{Reader: strings.NewReader("words")}
		}, 403, []string{"words"}},
		"no GetBody, length known": {func(r *http.Request) {
			r.Body, r.ContentLength = &plain{Reader: strings.NewReader("words")}, 5
		}, 403, []string{"words"}},
		"empty, of unknown length": {func(r *http.Request) {
			r.Body = &plain{Reader: strings.NewReader("")}
		}, 403, []string{""}},
		"GetBody fails": {func(r *http.Request) {
			r.Body = &plain{Reader: strings.NewReader("words")}
			r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") }
		}, 403, []string{"words"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, "contact", newcomers, 100)
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-From", "the limiter")
				l.ServeHTTP(w, r)
			})
			var seen events
			tr := &Transport{Base: inMemory{h}, Observe: seen.observe}
			req := request(t, http.MethodPost, "http://example.com/contact", nil)
			c.prepare(req)
			resp := do(t, tr, req)
			require.Equal(t, c.want, resp.StatusCode)
			require.Equal(t, c.bodies, l.bodies)
			if p, ok := req.Body.(*plain); ok {
				require.EqualValues(t, 1, p.closed.Load())
			}
			if c.want == 403 {
				body, _ := io.ReadAll(resp.Body)
				require.Equal(t, "Forbidden", string(body))
				require.Equal(t, "the limiter", resp.Header.Get("X-From"))
				require.Equal(t, notRewindable, seen.all[len(seen.all)-1].Reason)
			}
		})
	}
}

// A refusal that is not acted on reaches the caller, and its token is kept.
func TestTokenOfAReturnedRefusal(t *testing.T) {
	tok := tokenOf("contact", "f", 9)
	h, _ := script(answer(429, tokenField, tok, "Retry-After", "1"), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Shown", r.Header.Get(tokenField))
	})
	tr := &Transport{Base: inMemory{h}}
	req := request(t, http.MethodPost, "http://example.com", &plain{Reader: strings.NewReader("words")})
	require.Equal(t, 429, do(t, tr, req).StatusCode)
	require.Equal(t, tok, get(t, tr, "http://example.com").Header.Get("X-Shown"))
}

func TestHold(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		body   io.Reader
		length int
		err    error
		atOnce bool // the original is closed by hold
	}{
		"short":          {strings.NewReader("words"), 5, nil, true},
		"empty":          {strings.NewReader(""), 0, nil, true},
		"at the bound":   {strings.NewReader(strings.Repeat("x", maxHeld)), maxHeld, nil, true},
		"beyond":         {strings.NewReader(strings.Repeat("x", maxHeld+1)), maxHeld + 1, nil, false},
		"broken":         {io.MultiReader(strings.NewReader("wo"), iotest.ErrReader(broken)), 2, broken, true},
		"byte for byte":  {iotest.OneByteReader(strings.NewReader("words")), 5, nil, true},
		"end with bytes": {iotest.DataErrReader(strings.NewReader("words")), 5, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			original := &plain{Reader: c.body}
			resp := &http.Response{Body: original}
			hold(resp)
			require.Equal(t, c.atOnce, original.closed.Load() == 1)
			body, err := io.ReadAll(resp.Body)
			require.Equal(t, c.err, err)
			require.Len(t, body, c.length)
			require.NoError(t, resp.Body.Close())
			require.EqualValues(t, 1, original.closed.Load())
		})
	}
	resp := &http.Response{}
	hold(resp)
	require.Equal(t, http.NoBody, resp.Body)
}

// endless is a body without end that counts what is read of it.
type endless struct{ read, closed atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) { e.read.Add(int64(len(p))); return len(p), nil }
func (e *endless) Close() error               { e.closed.Add(1); return nil }

func TestRefusalWithoutEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		e := new(endless)
		n := 0
		tr := &Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}, Body: e}, nil
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})}
		require.Equal(t, 200, get(t, tr, "http://example.com").StatusCode)
		require.LessOrEqual(t, e.read.Load(), int64(2*maxHeld))
		require.EqualValues(t, 1, e.closed.Load())
	})
}

func TestRefusalWithoutEndIsClosedOnError(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		e := new(endless)
		tr := &Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"5"}}, Body: e}, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil)
		require.NoError(t, err)
		_, err = tr.RoundTrip(req)
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1, e.closed.Load())
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The request of the caller is only read.
func TestRequestIsNotChanged(t *testing.T) {
	l := newLimiter(t, "contact", newcomers, 2)
	tr := &Transport{Base: inMemory{l}}
	req := request(t, http.MethodPost, "http://example.com/contact", strings.NewReader("words"))
	req.Header.Set("X-Mine", "1")
	header, url, body, ctx := req.Header.Clone(), *req.URL, req.Body, req.Context()
	resp := do(t, tr, req)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, header, req.Header)
	require.Equal(t, url, *req.URL)
	require.True(t, body == req.Body)
	require.Equal(t, ctx, req.Context())
	require.Same(t, req, resp.Request, "no token is in it")
	req = request(t, http.MethodGet, "http://example.com/contact", nil)
	req.Header = nil
	require.Equal(t, 200, do(t, tr, req).StatusCode)
	require.Nil(t, req.Header)
}

// An error of the network is the caller's, at whatever send; the body is closed.
func TestErrorsOfBase(t *testing.T) {
	broken := errors.New("broken")
	for _, at := range []int{1, 2} {
		n := 0
		tr := &Transport{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if n++; n == at {
				_ = r.Body.Close()
				return nil, broken
			}
			return inMemory{asking(t, 16)}.RoundTrip(r)
		})}
		req := request(t, http.MethodPost, "http://example.com", strings.NewReader("words"))
		first := &plain{Reader: req.Body}
		req.Body = first
		resp, err := tr.RoundTrip(req)
		require.Nil(t, resp)
		require.Equal(t, broken, err, "not wrapped: http.Client looks at it")
		require.Equal(t, at, n)
		require.EqualValues(t, 1, first.closed.Load())
		require.Empty(t, tr.queues.going)
	}
}

func TestRequestWithoutURL(t *testing.T) {
	body := &plain{Reader: strings.NewReader("words")}
	_, err := new(Transport).RoundTrip(&http.Request{Body: body, Header: http.Header{}})
	require.Error(t, err)
	require.EqualValues(t, 1, body.closed.Load())
}

func TestBaseWithoutResponse(t *testing.T) {
	tr := &Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil })}
	_, err := (&http.Client{Transport: tr}).Get("http://example.com")
	require.Error(t, err)
}

// Fields that the caller sets are his; so is what comes back.
func TestCallerManaged(t *testing.T) {
	for name, field := range map[string]string{"token": tokenField, "proof": pow.ProofField, "spelled otherwise": "tallystick-token"} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, "contact", newcomers, 9)
			var seen events
			tr := &Transport{Base: inMemory{l}, Observe: seen.observe}
			require.Equal(t, 200, get(t, tr, "http://example.com/contact").StatusCode)
			kept := shows(&tr.jar, "http://example.com 80", 0)

			for _, values := range [][]string{{"mine"}, nil} {
				var got http.Header
				tr.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
					got = r.Header.Clone()
					return inMemory{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set(tokenField, tokenOf("contact", "of another", 1))
						l.challenge(w)
						w.WriteHeader(403)
					})}.RoundTrip(r)
				})
				req := request(t, http.MethodGet, "http://example.com/contact", nil)
				req.Header[field] = values
				require.Equal(t, 403, do(t, tr, req).StatusCode)
				require.Equal(t, http.Header{field: values}, got)
				require.Equal(t, callerManaged, seen.all[len(seen.all)-1].Reason)
				require.Equal(t, kept, shows(&tr.jar, "http://example.com 80", 0))
			}
		})
	}
}

// Tokens go to the origin that they came from, also when one redirects to another.
func TestTokensStayWithTheirOrigin(t *testing.T) {
	var shown []string
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Values(tokenField)...)
	}))
	defer stranger.Close()
	l := newLimiter(t, "contact", newcomers, 9)
	mux := http.NewServeMux()
	mux.Handle("/contact", l)
	mux.Handle("/away", http.RedirectHandler(stranger.URL, http.StatusTemporaryRedirect))
	s := httptest.NewServer(mux)
	defer s.Close()
	c := &http.Client{Transport: new(Transport)}
	for _, path := range []string{"/contact", "/away", "/contact"} {
		resp := kit.Must(c.Get(s.URL + path))(t)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
	}
	require.Empty(t, shown)
	require.Equal(t, 1, l.proofs)
	require.Equal(t, 3, l.requests)
	c.CloseIdleConnections()
}

// More policies in turn than fit into one request: what was bought stays.
func TestMorePoliciesThanAreShown(t *testing.T) {
	mux := http.NewServeMux()
	var all []*limiter
	for i := range 9 {
		l := newLimiter(t, fmt.Sprintf("p%d", i), newcomers, 9)
		all = append(all, l)
		mux.Handle(fmt.Sprintf("/%d", i), l)
	}
	tr := &Transport{Base: inMemory{mux}}
	for range 3 {
		for i := range all {
			require.Equal(t, 200, get(t, tr, fmt.Sprintf("http://example.com/%d", i)).StatusCode)
		}
	}
	for _, l := range all {
		require.Equal(t, 1, l.proofs)
	}
}

type closer struct {
	inMemory
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	base := new(closer)
	(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	(&Transport{Base: inMemory{}}).CloseIdleConnections()
}
