// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
)

// maxHeld is how much of a refusal's body is read before the request is sent
// again. Ours are a few hundred bytes.
const maxHeld = 16 << 10

// rewindable reports whether the body of req can be sent again.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// rewind returns the body of a rewindable request from its start.
func rewind(req *http.Request) (io.ReadCloser, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req.Body, nil
	}
	return req.GetBody()
}

// hold buffers the body of a refusal, so that its connection is free while the
// request solves or waits, and the caller can still get the refusal. A body
// longer than maxHeld stays on its connection, which the next request then cannot
// use: reading as long as a server sends would cost more.
func hold(resp *http.Response) {
	if resp.Body == nil {
		resp.Body = http.NoBody
		return
	}
	rest := resp.Body
	front, err := io.ReadAll(io.LimitReader(rest, maxHeld+1))
	if err == nil && len(front) > maxHeld {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(front), rest), rest}
		return
	}
	_ = rest.Close() // it has been read to its end, good or bad
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(front), failed{cmp.Or(err, io.EOF)}))
}

// failed is the end of a body, or where it could not be read further.
type failed struct{ error }

func (f failed) Read([]byte) (int, error) { return 0, f.error }
