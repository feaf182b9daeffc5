// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A problem is an error as OpenAI's clients read it.
type problem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func fail(w http.ResponseWriter, status int, p problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]problem{"error": p})
}

// tell says how the limits stand, by the fields of OpenAI: of requests and of tokens the limit with the least left.
func tell(h http.Header, limits []middleware.LimitStatus) {
	least := map[string]middleware.LimitStatus{}
	for _, l := range limits {
		unit := cmp.Or(l.Unit, "requests")
		if before, ok := least[unit]; !ok || l.Remaining < before.Remaining {
			least[unit] = l
		}
	}
	for unit, l := range least {
		h.Set("X-Ratelimit-Limit-"+unit, strconv.FormatInt(l.Quota, 10))
		h.Set("X-Ratelimit-Remaining-"+unit, strconv.FormatInt(l.Remaining, 10))
		h.Set("X-Ratelimit-Reset-"+unit, l.Reset.String())
	}
}

// refuse answers what a limit has refused.
func refuse(w http.ResponseWriter, r *http.Request) {
	d, _ := middleware.FromContext(r.Context())
	tell(w.Header(), d.Limits())
	if d.RetryAfter == 0 || d.RetryAfter > time.Minute {
		w.Header().Set("X-Should-Retry", "false")
	}
	p, code := problem{Message: "You cannot be served now: " + string(d.Reason) + ".", Type: "server_error"}, ""
	switch {
	case d.Status == http.StatusUnauthorized:
		p.Message, p.Type, code = "There is no such API key.", "invalid_request_error", "invalid_api_key"
	case d.Reason == middleware.TooManyAtOnce:
		p.Message, p.Type, code = "Too many requests at once.", "requests", "rate_limit_exceeded"
	case d.Reason == middleware.CostAboveQuota:
		p.Message, p.Type, code = "The request may use more tokens than a limit ever permits: ask for fewer.", "tokens", "request_too_large"
	case d.Reason == middleware.OverLimit:
		for _, l := range d.Limits() {
			if !l.Blocked {
				continue
			}
			p.Type = cmp.Or(l.Unit, "requests")
			p.Message, code = "Over the limit of "+p.Type+" per minute.", "rate_limit_exceeded"
			if l.Calendar != "" {
				p.Message, code = "The quota of "+p.Type+" of this month is used up.", "insufficient_quota"
				break
			}
		}
	}
	if code != "" {
		p.Code = &code
	}
	fail(w, d.Status, p)
}
