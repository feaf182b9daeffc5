// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// A call holds what the gateway reads of a request.
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

// read reads a request. Four bytes are about a token. It goes by the map, in which "MAX_TOKENS" is another name than "max_tokens",
// and sends that on: so the model reads what the gateway has read, also where a name comes twice.
func read(body []byte) (*call, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	number := func(name string) (n int64) {
		_ = json.Unmarshal(fields[name], &n) // what is no number the model refuses
		return n
	}
	c := &call{prompt: int64(len(body)) / 4}
	answer := cmp.Or(number("max_completion_tokens"), number("max_tokens"))
	if answer < 1 {
		answer = usual
	}
	c.estimate = 1 + c.prompt + min(answer, maxTokens)*max(1, min(number("n"), 128))
	var streams bool
	if _ = json.Unmarshal(fields["stream"], &streams); streams {
		var options map[string]json.RawMessage
		_ = json.Unmarshal(fields["stream_options"], &options)
		_ = json.Unmarshal(options["include_usage"], &c.asked)
		if !c.asked {
			if options == nil {
				options = map[string]json.RawMessage{}
			}
			options["include_usage"] = json.RawMessage("true")
			fields["stream_options"], _ = json.Marshal(options)
		}
	}
	var err error
	c.body, err = json.Marshal(fields)
	return c, err
}
