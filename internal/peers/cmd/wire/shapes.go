// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers/wire"
	"github.com/tallystick/tallystick/middleware"
)

// shapes returns what is measured. The first is the bare one, and the last are padding, in the
// order of pads: of each length one in the answer and one in the request.
func shapes() ([]wire.Shape, error) {
	minute, day := middleware.Limit{Quota: 500, Window: time.Minute}, middleware.Limit{Quota: 5000, Window: 24 * time.Hour}
	ours, err := wire.Ours(minute)
	if err != nil {
		return nil, err
	}
	two, err := wire.Ours(minute, day)
	if err != nil {
		return nil, err
	}
	policy, rate, token, cache, cookie := ours[wire.PolicyField], ours[wire.RateLimitField], ours[wire.TokenField], ours[wire.CacheField], ours[wire.CookieField]
	shown := wire.Field{Name: "Cookie"}
	for _, line := range cookie.Values {
		pair, _, _ := strings.Cut(line, ";")
		shown.Values = append(shown.Values, pair)
	}
	sends := func(name string, fields ...wire.Field) wire.Shape { return wire.Shape{Name: name, Sends: fields} }
	answers := func(name string, fields ...wire.Field) wire.Shape { return wire.Shape{Name: name, Answers: fields} }
	all := []wire.Shape{
		{Name: "none"},
		{Name: "no `Content-Type`", Plain: true},
		answers("`RateLimit-Policy`", policy),
		answers("`RateLimit`", rate),
		answers("`Tallystick-Token`", token),
		answers("`Cache-Control`", cache),
		answers("`Set-Cookie`", cookie),
		sends("`Tallystick-Token` shown", token),
		sends("`Cookie` shown", shown),
		{Name: "all, nothing shown", Answers: []wire.Field{policy, rate, token, cache, cookie}},
		{Name: "all, by field", Sends: []wire.Field{token}, Answers: []wire.Field{policy, rate, token, cache}},
		{Name: "all, by cookie", Sends: []wire.Field{shown}, Answers: []wire.Field{policy, rate, cache, cookie}},
		{Name: "all, by field, two limits", Sends: []wire.Field{two[wire.TokenField]}, Answers: []wire.Field{two[wire.PolicyField], two[wire.RateLimitField], two[wire.TokenField], cache}},
	}
	for _, n := range pads {
		pad := padding(n)
		all = append(all, answers(fmt.Sprintf("%d in the answer", n), pad), sends(fmt.Sprintf("%d in the request", n), pad))
	}
	return all, nil
}

// pads are the lengths of values by which the cost of a byte is told.
var pads = []int{8, 108, 208, 308, 408}

// padding returns a field whose value has n characters of base64url, another one each time,
// as a token has.
func padding(n int) wire.Field {
	random := rand.NewChaCha8([32]byte{byte(n)})
	f := wire.Field{Name: "X-Padding-Field-"} // as long as Tallystick-Token
	for range 64 {
		raw := make([]byte, n)
		_, _ = random.Read(raw) // never an error
		f.Values = append(f.Values, base64.RawURLEncoding.EncodeToString(raw)[:n])
	}
	return f
}
