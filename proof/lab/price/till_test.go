// SPDX-License-Identifier: Apache-2.0

package price

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
)

// A till is one instance of the middleware with the defaults of what it sells: the same to newcomers as a stall.
type till struct {
	*fleet.Moved
	instance int
}

// openTills starts n. Their waiting rooms are shut, so that all who get in have bought.
func openTills(n int, c middleware.Challenge) (all []counter) {
	c.Mode, c.Path, c.NoWaitingRoom = middleware.Newcomers, "/tally/", true
	f := fleet.New(n, middleware.Config{Limits: []middleware.Limit{slide(5, time.Minute)}, Challenge: &c})
	for i := range n {
		all = append(all, &till{f, i})
	}
	return all
}

// offers asks the endpoint of challenges. All newcomers come from one address.
func (c *till) offers(now int64, _ *newcomer) offer {
	next, _ := c.answer(now, fleet.Request{Method: http.MethodGet, Path: fleet.ChallengePath})
	return next
}

// sells shows the endpoint a proof, as the element does.
func (c *till) sells(now int64, _ *newcomer, o offer) (bool, offer) {
	next, sold := c.answer(now, fleet.Request{Path: fleet.RedeemPath, Proof: answered(o.challenge)})
	return sold, next
}

// answer sends a request at a time, and returns what is offered then, and whether it was admitted.
func (c *till) answer(now int64, r fleet.Request) (offer, bool) {
	c.To(time.Duration(now) * time.Millisecond)
	r.To, r.From = c.instance, fleet.V4(0)
	got := c.Ask(r)
	next, _ := got.Challenge() // the zero one is none
	return offer{int64(next.Work), next.Text}, got.Admitted()
}

// answered answers a challenge without the work, which is counted and not done: by the secret, it computes the numbers
// as docs/wire.md says that they are hidden. Small puzzles, as the other simulations have, would live for ten seconds,
// where a phone works for twenty.
func answered(challenge string) string {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	key, failed := hkdf.Key(sha256.New, fleet.Secret, nil, "tallystick/pow/num/1", sha256.Size)
	if err != nil || failed != nil || len(raw) < 38 {
		panic(fmt.Sprint("price: no challenge: ", challenge))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(make([]byte, 4))
	mac.Write(raw[:38])
	sum, span, numbers := mac.Sum(nil), uint64(binary.BigEndian.Uint32(raw[10:])), make([]string, puzzles)
	for i := range numbers {
		numbers[i] = fmt.Sprint(uint64(binary.BigEndian.Uint32(sum[4*i:])) * span >> 32)
	}
	return challenge + "~" + strings.Join(numbers, ".")
}
