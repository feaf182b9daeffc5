// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/assets"
	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/pow"
)

// answers reports whether a path is one of the policy's own URLs. A policy that is wrapped around a whole site
// answers these itself: it would challenge its own script, and lock all clients out. Passing them to the handler
// inside would leave a handler that looks at no path without a limit. Any other URL below the path is limited as
// usual: a file that does not exist, and the pages of a site that has put the endpoints beside them.
func (c *challenger) answers(asked string) bool {
	name, below := strings.CutPrefix(asked, c.path)
	if !below || c.path == "" || !isEndpoint(name) {
		return false
	}
	if !c.mounted.Load() {
		c.mounted.Store(true)
	}
	return true
}

// isEndpoint reports whether there is an endpoint or a file of this name.
func isEndpoint(name string) bool {
	switch name {
	case "challenge", "redeem", "ticket":
		return true
	}
	f, _ := assets.Find(name)
	return f != nil
}

// serveEndpoints answers the policy's own URLs.
func (e *engine) serveEndpoints(w http.ResponseWriter, r *http.Request) {
	if e.challenge == nil || e.challenge.path == "" {
		http.Error(reply.Unstored{ResponseWriter: w}, "404: this policy has no Challenge.Path, and so no endpoints", http.StatusNotFound)
		return
	}
	name := e.challenge.below(r.URL.Path)
	if isEndpoint(name) && !strings.HasSuffix(name, ".css") && !e.checks.scripts.Load() { // a style sheet comes where scripts are forbidden
		e.checks.scripts.Store(true)
	}
	switch name {
	case "challenge":
		e.serveEndpoint(w, r, http.MethodGet, (*call).answerChallenge)
	case "redeem":
		e.serveEndpoint(w, r, http.MethodPost, (*call).answerRedeem)
	case "ticket":
		e.serveEndpoint(w, r, http.MethodGet, (*call).answerTicket)
	default:
		e.serveAsset(reply.Unstored{ResponseWriter: w}, r, name)
	}
}

// serveAsset answers a file. Where there is none, the endpoints may have been mounted where no browser looks for them.
func (e *engine) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	f, exact := assets.Find(name)
	switch {
	case f == nil && isEndpoint(path.Base(name)) && !strings.HasPrefix(r.URL.Path, e.challenge.path):
		if e.checks.misplaced.CompareAndSwap(false, true) {
			e.checks.warn(e.now(), endpointsMisplaced)
		}
		http.Error(w, "404: mount these endpoints at "+e.challenge.path+" or, where a proxy takes its beginning away, at the rest", http.StatusNotFound)
	case f == nil:
		http.NotFound(w, r)
	case methodAllowed(w, r, http.MethodGet):
		f.Serve(w, r, exact)
	}
}

// methodAllowed reports whether r has the right method, and answers it if not.
func methodAllowed(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	if method == http.MethodGet {
		method = "GET, HEAD"
	}
	w.Header().Set("Allow", method)
	http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	return false
}

// serveEndpoint answers for a client that can be told, by the right method, and not
// from a page of another site: that one could spend its visitor's address, and
// plant what it bought.
func (e *engine) serveEndpoint(w http.ResponseWriter, r *http.Request, method string, answer func(*call, http.ResponseWriter)) {
	if !methodAllowed(reply.Unstored{ResponseWriter: w}, r, method) {
		return
	}
	if http.NewCrossOriginProtection().Check(r) != nil {
		e.sentByAnother(r)
		http.Error(reply.Unstored{ResponseWriter: w}, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	dc := &decisionContext{Context: r.Context()}
	defer dc.handBack(r)
	d := &dc.decision
	d.engine, d.Cost = e, 1
	q := &call{engine: e, ctx: r.Context(), r: r, cost: 1, dc: dc}
	v, ok := q.identify()
	if !ok {
		q.concludeUncharged(&v)
		reply.ForbidStoring(w.Header())
		dc.reply.Fields.Set(w.Header())
		e.refuse(w, dc.asking(r), dc, v.denial)
		return
	}
	d.tier = q.who.tier
	if q.who.waited {
		q.readClock()
	}
	answer(q, w)
}

// answerChallenge answers a fresh challenge, at the price of this moment, and what a page must know
// to decide whether to take it on: "needed", "left" where the limits say something, and "carried"
// where something bought came along. Where nothing is for sale, or no proof would help, it is the
// refusal that the next request would get.
func (q *call) answerChallenge(w http.ResponseWriter) {
	d := &q.dc.decision
	q.readTokens()
	cost := q.priceAsked()
	left, enough, v := q.peek(cost)
	needed := !enough || q.challenge.mode == EveryRequest
	var o offer
	dear := v.reason == OverLimit && q.who.tier.tooDear(q.priceOf(cost)) // no tally that is sold would do
	if (q.challenge.mode != EveryRequest || enough) && !dear {
		o = q.offer()
		if v = v.offering(o); v.reason == SoldOut {
			v.jitter()
		}
	}
	d.conclude(&v)
	if o.challenge == nil && needed {
		q.writeTurnDown(w, o)
		return
	}
	body := strconv.AppendBool([]byte(`{"needed":`), needed)
	if left >= 0 && !q.transport.quiet {
		body = strconv.AppendInt(append(body, `,"left":`...), left, 10)
	}
	if carried, because := q.carriesPurchase(); carried {
		body = append(body, `,"carried":true`...)
	} else if because != "" {
		body = append(append(append(body, `,"reason":"`...), because...), '"')
	}
	if c := o.challenge; c != nil {
		if needed {
			q.transport.tryCookie(w, q.r, c.TTL)
		}
		w.Header().Set(ChallengeHeader, o.field)
		body = page.AppendTerms(append(body, ','), page.Challenge{Text: c.Text, TTL: c.TTL, Work: c.Work})
	}
	writeJSON(w, body)
}

// carriesPurchase reports whether something that was bought came by cookie or field. A
// page that has just bought it, and hears that it did not come, knows that its browser
// keeps no cookies; "needed" does not tell in EveryRequest, where it is always true. Where it did
// come, and this instance does not believe the one that sold it, because says what they disagree about.
func (q *call) carriesPurchase() (carried bool, because Reason) {
	because = q.shown.fault.instances()
	for _, text := range q.shown.proofCookies {
		receipt, err := q.challenge.issuer.Verify(q.at, q.challenge.binding(q.who.bytes), text)
		if err == nil {
			return true, ""
		}
		if why := q.proofReason(&receipt, err); why == proofSecretUnknown || why == proofClockDiffers {
			because = why
		}
	}
	return len(q.shown.own) > 0, because
}

// answerTicket answers a ticket for the waiting room, and how many seconds it has to
// wait: for a browser that runs a script and cannot do the work. Where a page that is
// refused brings the same, what was typed there would have to go away to fetch it. It
// is 404 where waiting is no way in.
func (q *call) answerTicket(w http.ResponseWriter) {
	if q.room == nil {
		http.NotFound(reply.Unstored{ResponseWriter: w}, q.r)
		return
	}
	cost, wait := q.priceAsked(), time.Duration(0)
	q.readTokens()
	pass := q.readRoomPass(cost)
	carried := len(q.shown.roomCookies) > 0 // also one that is used up: it says that cookies come along
	if f := q.roomCandidate(&pass); !pass.admits(q.at) || !q.memory.Peek(q.at, q.who.tier.room.policy, &f, cost).Admitted {
		if pass, wait = q.issueTicket(pass, cost); wait == 0 {
			http.NotFound(reply.Unstored{ResponseWriter: w}, q.r)
			return
		}
		w.Header().Add(reply.SetCookie, q.roomCookie(&pass, &pass.tally))
	}
	body := strconv.AppendInt([]byte(`{"wait":`), int64(wait/time.Second), 10)
	writeJSON(w, strconv.AppendBool(append(body, `,"carried":`...), carried))
}

// longestQuery is how long the query of an endpoint may be that says a cost.
const longestQuery = 1 << 10

// priceAsked prices the request that the client has in mind, and returns what it costs. Of other units it costs 1, as no
// client can say that.
func (q *call) priceAsked() (cost int64) {
	cost = q.costAsked()
	if units := q.who.tier.units; units != nil {
		q.each = new(limiter.Costs)
		for i := range units {
			if q.each[i] = 1; units[i] == "" {
				q.each[i] = cost
			}
		}
	}
	return cost
}

// costAsked returns what the request that the client has in mind is going to cost. Only the client
// knows: Config.Cost has seen no such request. A lie misleads the client alone. Nothing else of the
// query is parsed: digits need no escaping.
func (q *call) costAsked() int64 {
	query := q.r.URL.RawQuery
	if len(query) > longestQuery {
		return 1
	}
	for pair := range strings.SplitSeq(query, "&") {
		if digits, ok := strings.CutPrefix(pair, "cost="); ok {
			cost, err := strconv.ParseInt(digits, 10, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 1
			}
			return max(1, min(cost, q.who.tier.most()))
		}
	}
	return 1
}

// peek looks at the limits without charging them: what they leave to a client that
// shows this, or -1 if they cannot be asked; whether that
// is enough for a request of this cost; and the verdict about it if not.
func (q *call) peek(cost int64) (left int64, enough bool, v verdict) {
	candidates := q.ownCandidates()
	asksShared := !q.workFirst()
	if q.who.tier.tooDear(q.priceOf(cost)) { // as chargeBought does
		asksShared = asksShared || len(candidates) > 0
		candidates = nil
	}
	own := len(candidates)
	if asksShared {
		candidates = append(candidates, q.sharedCandidate())
	}
	policyOf := func(i int) *limiter.Policy {
		if i < own {
			return q.who.tier.pass.policy
		}
		return q.who.tier.policy
	}
	left, best := int64(-1), 0
	for i := range candidates {
		v := q.memory.Peek(q.at, policyOf(i), &candidates[i], 0)
		if least := v.Least(q.who.tier.policy.Len()); least > left {
			left, best = least, i
		}
	}
	if v = proofWanted(); left < 0 {
		return -1, false, v
	}
	as := q.memory.Peek(q.at, policyOf(best), &candidates[best], cost)
	if as.Admitted {
		return left, true, v
	}
	v.reason, v.status, v.retryAfter = OverLimit, http.StatusTooManyRequests, as.Wait
	if best < own {
		rest := restOf(q.at, &q.shown.own[best].own)
		if v.retryAfter >= rest && asksShared { // it is used up for good
			v.retryAfter = q.memory.Peek(q.at, q.who.tier.policy, &candidates[own], cost).Wait
		} else {
			v.retryAfter = min(v.retryAfter, rest)
		}
	}
	return left, false, v
}

// writeTurnDown answers a refusal, with the challenge that is offered.
func (q *call) writeTurnDown(w http.ResponseWriter, o offer) {
	if o.challenge != nil {
		q.dc.decision.withExtras().Offered = o.challenge
	}
	q.answer(answerFields{}, offerFields{challenge: o.field})
	reply.ForbidStoring(w.Header())
	q.setFields(w)
	q.refuse(w, q.dc.asking(q.r), q.dc, nil)
}

// setFields puts the fields into the response, beside the fields of a limiter that the endpoints
// are mounted in.
func (q *call) setFields(w http.ResponseWriter) {
	dc := q.dc
	if outer := contextOf(dc.Context); outer != nil && dc.joins(outer, w, q.r) {
		dc.reply.Fields.Within(&outer.reply.Fields, nil)
	}
	dc.reply.Fields.Set(w.Header())
}

// answerRedeem answers the token, or the cookie, that a proof buys.
func (q *call) answerRedeem(w http.ResponseWriter) {
	var reason Reason
	q.shown.fields = q.r.Header
	text := q.r.Header.Get(ProofHeader)
	receipt, err := q.challenge.issuer.Verify(q.at, q.challenge.binding(q.who.bytes), text)
	switch {
	case text == "":
	case err != nil:
		reason = q.proofReason(&receipt, err)
	case q.challenge.mode == EveryRequest:
		q.writeBought(w, q.transport.setProofCookie(q.at, w, text, &receipt))
		return
	default:
		own, sale := q.redeem(&receipt)
		if sale.Granted {
			q.answer(answerFields{own: &own, tally: new(limiter.Tally)}, offerFields{})
			q.dc.reply.Fields.Lines[reply.Policy] = "" // it has not been asked
			q.setFields(w)
			q.writeBought(w, own.Expires-q.at.Unix())
			return
		}
		reason = saleReason(&sale)
	}
	q.dc.decision.noteProof(reason)
	q.challenge.proofs.note(reason)
	var o offer
	v := overloaded() // the proof stays good
	if reason != Overloaded {
		o = q.offer()
		v = proofWanted().offering(o)
		v.jitter()
	}
	q.dc.decision.conclude(&v)
	q.writeTurnDown(w, o)
}

// writeBought answers for how many seconds it is good that was bought, and whether a cookie came with the proof.
// Where none came, the page has to ask whether its browser keeps what was bought.
func (q *call) writeBought(w http.ResponseWriter, left int64) {
	body := strconv.AppendInt([]byte(`{"expires-in":`), left, 10)
	if q.transport.kind != HeaderOnly && q.transport.showsCookie(q.r) {
		body = append(body, `,"carried":true`...)
	}
	writeJSON(w, body)
}

// tryCookie has a browser that shows no cookie of the policy send one along with its proof, if it keeps any.
func (c *transport) tryCookie(w http.ResponseWriter, r *http.Request, life time.Duration) {
	if c.kind != HeaderOnly && !c.showsCookie(r) {
		w.Header().Add(reply.SetCookie, c.cookieName+keptSuffix+"=1; Max-Age="+strconv.FormatInt(int64(life/time.Second), 10)+c.cookieAttributes)
	}
}

// setProofCookie has a browser send the proof along with its next requests, and
// returns for how many seconds.
func (c *transport) setProofCookie(now time.Time, w http.ResponseWriter, proof string, receipt *pow.Receipt) (left int64) {
	left = max(1, int64(receipt.Expires.Sub(now)/time.Second))
	if c.kind != HeaderOnly {
		w.Header().Add(reply.SetCookie, c.proofCookie([4]byte(receipt.ID[:4]), proof, left))
	}
	return left
}

// writeJSON writes an object that lacks its closing brace.
func writeJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	reply.ForbidStoring(h)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", reply.NoStore)
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, "}\n"...))
}
