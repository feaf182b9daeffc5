// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// A caller is a client of one policy at one address. It is used by one goroutine at a time.
type caller struct {
	w       *world
	name    string
	policy  string
	address netip.Addr
	token   string // the newest, where it is one that echoes
}

func (w *world) caller(policy, kind string, number int) *caller {
	return &caller{w: w, name: kind + " " + strconv.Itoa(number), policy: policy, address: w.host()}
}

type answer struct {
	status int
	header http.Header
	body   string
	why    string
	part   part
}

func (a answer) admitted() bool { return a.status == http.StatusOK }
func (a answer) token() string  { return a.header.Get(middleware.TokenHeader) }

// ask sends a request to an instance, with a path below the policy's, and further fields, names
// and values in turn.
func (c *caller) ask(instance int, method, path, body string, fields ...string) (answer, error) {
	req, err := http.NewRequest(method, c.w.sites[instance%len(c.w.sites)].url+"/"+c.policy+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(nameField, c.name)
	req.Header.Set("X-Forwarded-For", c.address.String())
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := c.w.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text), resp.Header.Get(decisionField), part(resp.Header.Get(partField))}, err
}

// send is the request of an honest client: it shows its newest token while that lives, and keeps
// the next. One whose connection breaks is lost.
func (c *caller) send(instance int, body string, fields ...string) answer {
	if c.token != "" && expiry(c.token) <= c.w.clocks.right.Load() {
		c.token = "" // as a browser does with a cookie
	}
	if c.token != "" {
		fields = append(fields, middleware.TokenHeader, c.token)
	}
	a, err := c.ask(instance, http.MethodPost, "", body, fields...)
	if err != nil {
		c.w.broken.Note(c.name + " on /" + c.policy + ": " + err.Error())
	}
	if t := a.token(); t != "" {
		c.token = t
	}
	if a.admitted() && a.body != strconv.Itoa(len(body)) {
		c.w.broken.Note(fmt.Sprintf("%s: of %d bytes %s came", c.name, len(body), a.body))
	}
	return a
}

// buy buys a tally, and returns its first token; "" if it is not sold.
func (c *caller) buy(seller, redeemer int) (string, error) {
	a, err := c.ask(seller, http.MethodGet, "/tally/challenge", "")
	if err != nil {
		return "", err
	}
	proof, err := a.solve()
	if err != nil {
		return "", err
	}
	a, err = c.ask(redeemer, http.MethodPost, "/tally/redeem", "", middleware.ProofHeader, proof)
	if err != nil || a.status != http.StatusOK {
		return "", err
	}
	c.owns(a, seller)
	return a.token(), nil
}

// solve solves the challenge of an answer.
func (a answer) solve() (proof string, err error) {
	challenge, err := pow.ParseHeader(a.header.Get(middleware.ChallengeHeader))
	if err != nil {
		return "", fmt.Errorf("%d: %w", a.status, err)
	}
	return pow.Solve(context.Background(), challenge.Text, pow.SolveOptions{Workers: 1})
}

// owns notes the tally that an answer brings for a proof: its home is the seller, where the challenge came from.
func (c *caller) owns(a answer, seller int) {
	c.w.book.buys(tenant{c.policy, c.address}, seller%instances, expiry(a.token())/window)
}

// ticket returns a ticket of the waiting room, as a cookie to show.
func (c *caller) ticket(instance int) string {
	a, err := c.ask(instance, http.MethodGet, "/tally/ticket", "", "Accept", "text/html")
	if err != nil {
		return ""
	}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if strings.HasSuffix(cookie.Name, ".wait") {
			return cookie.Name + "=" + cookie.Value
		}
	}
	return ""
}

// expiry is when a token ends, as it says itself. No key is needed to read that.
func expiry(token string) int64 {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return 0
	}
	return claims.Exp
}
