// SPDX-License-Identifier: Apache-2.0

package price

import (
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
)

// A till is one instance of the middleware with the defaults of what it sells: the same to newcomers as a stall.
type till struct {
	handler http.Handler
	now     time.Time
}

// tillSecret is one that the simulation shares with nobody.
var tillSecret = []byte(strings.Repeat("s", 32))

// openTill starts one. Its waiting room is shut, so that all who get in have bought.
func openTill(challenge middleware.Challenge) *till {
	c := &till{now: opening}
	challenge.Mode, challenge.Path, challenge.NoWaitingRoom = middleware.Newcomers, "/tally/", true
	limit, err := middleware.New(middleware.Config{
		Policy: "form", Limits: []middleware.Limit{slide(5, time.Minute)}, Secrets: [][]byte{tillSecret},
		Challenge: &challenge,
		Now:       func() time.Time { return c.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err) // all of it is constant
	}
	mux := http.NewServeMux()
	mux.Handle("/", limit.Handler(http.NotFoundHandler()))
	mux.Handle("/tally/", limit.Endpoints())
	c.handler = mux
	return c
}

// ask sends a request of a newcomer, with a proof or none, to what is limited or to an endpoint.
func (c *till) ask(method, path, peer, proof string) *http.Response {
	r := httptest.NewRequest(method, cmp.Or(path, "/"), nil)
	r.RemoteAddr = peer
	if proof != "" {
		r.Header.Set(middleware.ProofHeader, proof)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result()
}

// counterPeer is where all the newcomers to a till come from.
const counterPeer = "192.0.2.1:1"

// offers asks the endpoint of challenges.
func (c *till) offers(now int64, _ []sale.Buyer) offer {
	c.now = at(now)
	return offerIn(c.ask(http.MethodGet, fleet.ChallengePath, counterPeer, ""))
}

// sells shows the endpoint a proof, as the element does.
func (c *till) sells(now int64, _ []sale.Buyer, o offer) (bool, offer) {
	c.now = at(now)
	got := c.ask(http.MethodPost, fleet.RedeemPath, counterPeer, answered(o.challenge))
	return got.StatusCode == http.StatusOK, offerIn(got)
}

// offerIn is the challenge in an answer, if it has one.
func offerIn(got *http.Response) offer {
	c, ok := fleet.Answer{Status: got.StatusCode, Header: got.Header}.Challenge()
	if !ok {
		return offer{}
	}
	return offer{int64(c.Work), c.Text}
}

// answered answers a challenge without the work, which is counted and not done: by the secret, it computes the numbers
// as docs/wire.md says that they are hidden. Small puzzles, as the other simulations have, would live for ten seconds,
// where a phone works for twenty.
func answered(challenge string) string {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	key, failed := hkdf.Key(sha256.New, tillSecret, nil, "tallystick/pow/num/1", sha256.Size)
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
