// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// A call is what the gateway reads of a request.
type call struct {
	body     []byte // for the upstream
	asked    bool   // the client has asked for the usage of its stream
	prompt   int64  // about how many tokens it has
	estimate int64  // what it may cost
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// Bounds of what a client may say. Without a number of its own an answer is estimated at usual.
const (
	maxBody   = 4 << 20
	maxTokens = 1 << 20
	usual     = 1000
)

// read reads a request. Four bytes are about a token.
func read(body []byte) (*call, error) {
	var fields map[string]json.RawMessage
	var known struct {
		Stream        bool           `json:"stream"`
		StreamOptions map[string]any `json:"stream_options"`
		MaxTokens     int64          `json:"max_tokens"`
		MaxCompletion int64          `json:"max_completion_tokens"`
		N             int64          `json:"n"`
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &known); err != nil {
		return nil, err
	}
	c := &call{body: body, prompt: int64(len(body)) / 4}
	answer := cmp.Or(known.MaxCompletion, known.MaxTokens)
	if answer < 1 {
		answer = usual
	}
	c.estimate = 1 + c.prompt + min(answer, maxTokens)*max(1, min(known.N, 128))
	if !known.Stream {
		return c, nil
	}
	if c.asked, _ = known.StreamOptions["include_usage"].(bool); c.asked {
		return c, nil
	}
	if known.StreamOptions == nil {
		known.StreamOptions = map[string]any{}
	}
	known.StreamOptions["include_usage"] = true
	var err error
	if fields["stream_options"], err = json.Marshal(known.StreamOptions); err != nil {
		return nil, err
	}
	c.body, err = json.Marshal(fields)
	return c, err
}
