// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

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
		"empty, but who knows": {func(r *http.Request) {
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

// The connection of a refusal is used again for the next send, but one that a busy machine held while it was written to:
// net/http keeps it where that took less than 50 ms.
func TestConnectionIsKept(t *testing.T) {
	for tries := 1; connectionsOfAPurchase(t) > 1; tries++ {
		require.Less(t, tries, 20)
	}
}

func connectionsOfAPurchase(t *testing.T) int {
	l := newLimiter(t, "contact", newcomers, 100)
	addresses := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses[r.RemoteAddr] = true
		l.ServeHTTP(w, r)
	}))
	defer s.Close()
	tr := &Transport{Base: s.Client().Transport}
	req := request(t, http.MethodPost, s.URL, bytes.NewReader(make([]byte, 1<<10)))
	require.Equal(t, 200, do(t, tr, req).StatusCode)
	require.Equal(t, 2, l.requests)
	return len(addresses)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
