// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/tallystick/tallystick/middleware"
)

// gateway reads a request, limits it, and passes it on.
func gateway(limit *middleware.Middleware, upstream *url.URL, key string) http.Handler {
	limited := limit.Handler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Set("Authorization", "Bearer "+key)
			r.Out.Header.Del("Accept-Encoding") // the transport has its own, and undoes it
			c := callOf(r.In)
			r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
		},
		ModifyResponse: func(resp *http.Response) error {
			for name := range resp.Header { // they tell of our quota there
				if strings.HasPrefix(name, "X-Ratelimit-") {
					resp.Header.Del(name)
				}
			}
			d, _ := middleware.FromContext(resp.Request.Context())
			tell(resp.Header, d.Limits())
			return measure(resp)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // the upstream's fault, and not the client's
				settled(middleware.Refund(w, r))
			}
			fail(w, http.StatusBadGateway, problem{Message: "The model does not answer.", Type: "server_error"})
		},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			fail(w, http.StatusRequestEntityTooLarge, problem{Message: "The body cannot be read, or is too large.", Type: "invalid_request_error"})
			return
		}
		c, err := read(body)
		if err != nil {
			fail(w, http.StatusBadRequest, problem{Message: "The body is no JSON of a request.", Type: "invalid_request_error"})
			return
		}
		limited.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
	})
}

// usage is the usage that the model reports: in an answer, and in the last event of a stream.
type usage struct {
	Choices []json.RawMessage `json:"choices"`
	Usage   *struct {
		TotalTokens int64 `json:"total_tokens"`
	} `json:"usage"`
}

// measure settles an answer. An answer without a usage has cost what was estimated.
func measure(resp *http.Response) error {
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "text/event-stream" {
		resp.Body = &stream{body: resp.Body, lines: bufio.NewReader(resp.Body), request: resp.Request}
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var u usage
	switch err := json.Unmarshal(body, &u); {
	case resp.StatusCode != http.StatusOK:
		settled(middleware.Settle(resp.Request, 0, "tokens"))
	case err == nil && u.Usage != nil:
		settled(middleware.Settle(resp.Request, u.Usage.TotalTokens, "tokens"))
	}
	return nil
}

func settled(err error) {
	if err != nil { // the counter does not answer: the estimate stays
		log.Print("gateway: ", err)
	}
}

// A stream passes events on, and settles the request when it ends, or when the client has gone.
type stream struct {
	body    io.Closer
	lines   *bufio.Reader
	request *http.Request
	line    []byte // what is not passed on yet
	events  int64
	total   int64
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.line) == 0 {
		line, err := s.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		if s.passes(line) {
			s.line = line
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// passes reads an event, and reports whether it is for the client: usage that it has not asked for is not.
func (s *stream) passes(line []byte) bool {
	data, found := bytes.CutPrefix(line, []byte("data:"))
	var u usage
	if !found || json.Unmarshal(data, &u) != nil {
		return true
	}
	s.events++
	if u.Usage != nil {
		s.total = u.Usage.TotalTokens
	}
	return len(u.Choices) > 0 || u.Usage == nil || callOf(s.request).asked
}

func (s *stream) Close() error {
	settled(middleware.Settle(s.request, cmp.Or(s.total, callOf(s.request).prompt+s.events), "tokens"))
	return s.body.Close()
}
