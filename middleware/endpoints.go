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
	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/pow"
)

// answers reports whether a path is one of the policy's own URLs. A policy that is wrapped around a whole site answers
// these itself: it would challenge its own script, and lock all out. To pass them to what is inside would leave a
// handler that looks at no path without a limit. What else is below the path is limited like any other: a file that
// there is not, and the pages of a site that has put the endpoints beside them.
func (c *challenger) answers(asked string) bool {
	name, below := strings.CutPrefix(asked, c.path)
	if !below || c.path == "" {
		return false
	}
	if !c.has(name) {
		return false
	}
	if !c.mounted.Load() {
		c.mounted.Store(true)
	}
	return true
}

// has reports whether there is an endpoint or a file of this name.
func (c *challenger) has(name string) bool {
	switch name {
	case "challenge", "redeem", "ticket":
		return true
	}
	f, _ := c.assets.Find(name)
	return f != nil
}

// serveEndpoints answers the policy's own URLs.
func (e *engine) serveEndpoints(w http.ResponseWriter, r *http.Request) {
	if e.challenge == nil || e.challenge.path == "" {
		http.Error(reply.Unstored{ResponseWriter: w}, "404: this policy has no Challenge.Path, and so no endpoints", http.StatusNotFound)
		return
	}
	name := e.challenge.below(r.URL.Path)
	if e.challenge.has(name) && !strings.HasSuffix(name, ".css") && !e.checks.scripts.Load() { // a style sheet comes where scripts are forbidden
		e.checks.scripts.Store(true)
	}
	switch name {
	case "challenge":
		e.serveEndpoint(w, r, http.MethodGet, e.answerChallenge)
	case "redeem":
		e.serveEndpoint(w, r, http.MethodPost, e.answerRedeem)
	case "ticket":
		e.serveEndpoint(w, r, http.MethodGet, e.answerTicket)
	default:
		e.serveAsset(reply.Unstored{ResponseWriter: w}, r, name)
	}
}

// serveAsset answers a file. Where there is none, the endpoints may have been mounted where no browser looks for them.
func (e *engine) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	f, exact := e.challenge.assets.Find(name)
	switch {
	case f == nil && e.challenge.has(path.Base(name)) && !strings.HasPrefix(r.URL.Path, e.challenge.path):
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

// An endpointAnswer answers a request to an endpoint by somebody who can be told.
type endpointAnswer func(now time.Time, w http.ResponseWriter, r *http.Request, dc *decisionContext, who *subject)

// serveEndpoint answers for a client that can be told, by the right method, and not
// from a page of another site: that one could spend its visitor's address, and
// plant what it bought.
func (e *engine) serveEndpoint(w http.ResponseWriter, r *http.Request, method string, answer endpointAnswer) {
	if !methodAllowed(reply.Unstored{ResponseWriter: w}, r, method) {
		return
	}
	if http.NewCrossOriginProtection().Check(r) != nil {
		http.Error(reply.Unstored{ResponseWriter: w}, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	dc, now := &decisionContext{Context: r.Context()}, e.now()
	defer dc.handBack(r)
	d := &dc.decision
	d.engine, d.Cost = e, 1
	var who subject
	v, ok := e.identify(now, over(r), dc, &who)
	if !ok {
		e.concludeUncharged(dc, &v)
		reply.ForbidStoring(w.Header())
		dc.reply.Fields.Set(w.Header())
		e.refuse(w, dc.asking(r), dc, v.denial)
		return
	}
	d.tier = who.tier
	if e.customers != nil { // whose limits may have been waited for
		now = e.now()
	}
	answer(now, w, r, dc, &who)
}

// answerChallenge answers a fresh challenge, at the price of this moment, and what
// a page must know to decide whether to take it on: "needed", "left" where the
// limits say something, and "carried" where something bought came along. Where nobody
// sells, or no proof would help, it is the refusal that the next request would get.
func (e *engine) answerChallenge(now time.Time, w http.ResponseWriter, r *http.Request, dc *decisionContext, who *subject) {
	d := &dc.decision
	var shown credentials
	e.readTokens(now, over(r), who, &shown)
	cost := costOf(r, who)
	left, enough, v := e.peek(now, who, &shown, cost)
	needed := !enough || e.challenge.mode == EveryRequest
	var o offer
	dear := v.reason == OverLimit && who.tier.tooDear(cost) // no tally that is sold would do
	if (e.challenge.mode != EveryRequest || enough) && !dear {
		o = e.challenge.offer(now, who)
		if v = v.offering(o); v.reason == SoldOut {
			v.jitter()
		}
	}
	d.conclude(&v)
	if o.challenge == nil && needed {
		e.writeTurnDown(now, w, r, dc, who, o)
		return
	}
	body := strconv.AppendBool([]byte(`{"needed":`), needed)
	if left >= 0 && !e.carriage.quiet {
		body = strconv.AppendInt(append(body, `,"left":`...), left, 10)
	}
	if carried, because := e.challenge.carriesPurchase(now, who, &shown); carried {
		body = append(body, `,"carried":true`...)
	} else if because != "" {
		body = append(append(append(body, `,"reason":"`...), because...), '"')
	}
	if c := o.challenge; c != nil {
		if needed {
			e.carriage.tryCookie(w, r, c.TTL)
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
func (c *challenger) carriesPurchase(now time.Time, who *subject, shown *credentials) (carried bool, because Reason) {
	because = shown.fault.instances()
	for _, text := range shown.proofCookies {
		receipt, err := c.issuer.Verify(now, c.binding(who.bytes), text)
		if err == nil {
			return true, ""
		}
		if why := c.proofReason(now, who, &receipt, err); why == proofSecretUnknown || why == proofClockDiffers {
			because = why
		}
	}
	return len(shown.own) > 0, because
}

// answerTicket answers a ticket for the waiting room, and how many seconds it has to
// wait: for a browser that runs a script and cannot do the work. Where a page that is
// refused brings the same, what was typed there would have to go away to fetch it. It
// is 404 where waiting is no way in.
func (e *engine) answerTicket(now time.Time, w http.ResponseWriter, r *http.Request, _ *decisionContext, who *subject) {
	if e.room == nil {
		http.NotFound(reply.Unstored{ResponseWriter: w}, r)
		return
	}
	cost, wait := costOf(r, who), time.Duration(0)
	var shown credentials
	e.readTokens(now, over(r), who, &shown)
	pass := e.room.readRoomPass(now, who, &shown, cost)
	carried := len(shown.roomCookies) > 0 // also one that is used up: it says that cookies come along
	if f := e.room.roomCandidate(who, &pass); !pass.admits(now) || !e.memory.Peek(now, who.tier.room.policy, &f, cost).Admitted {
		if pass, wait = e.room.issueTicket(now, who, pass, cost); wait == 0 {
			http.NotFound(reply.Unstored{ResponseWriter: w}, r)
			return
		}
		w.Header().Add(reply.SetCookie, e.carriage.roomCookie(now, who, &pass, &pass.tally))
	}
	body := strconv.AppendInt([]byte(`{"wait":`), int64(wait/time.Second), 10)
	writeJSON(w, strconv.AppendBool(append(body, `,"carried":`...), carried))
}

// longestQuery is how long the query of an endpoint may be that says a cost.
const longestQuery = 1 << 10

// costOf returns what the request that the client has in mind is going to cost. Only
// the client knows: Config.Cost has seen no such request. A lie misleads nobody else.
// Nothing else of the query is parsed: digits need no escaping.
func costOf(r *http.Request, who *subject) int64 {
	query := r.URL.RawQuery
	if len(query) > longestQuery {
		return 1
	}
	for pair := range strings.SplitSeq(query, "&") {
		if digits, ok := strings.CutPrefix(pair, "cost="); ok {
			cost, err := strconv.ParseInt(digits, 10, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 1
			}
			return max(1, min(cost, who.tier.most()))
		}
	}
	return 1
}

// peek looks at the limits without charging them: what they leave to a client that
// shows this, or -1 if they cannot be asked; whether that
// is enough for a request of this cost; and the verdict about it if not.
func (e *engine) peek(now time.Time, who *subject, shown *credentials, cost int64) (left int64, enough bool, v verdict) {
	candidates := e.ownCandidates(shown)
	asksShared := !e.challenge.workFirst(now, who)
	if who.tier.tooDear(cost) { // as chargeBought does
		asksShared = asksShared || len(candidates) > 0
		candidates = nil
	}
	own := len(candidates)
	if asksShared {
		candidates = append(candidates, e.sharedCandidate(who, shown))
	}
	policyOf := func(i int) *limiter.Policy {
		if i < own {
			return who.tier.pass.policy
		}
		return who.tier.policy
	}
	left, best := int64(-1), 0
	for i := range candidates {
		v := e.memory.Peek(now, policyOf(i), &candidates[i], 0)
		if least := v.Least(who.tier.policy.Len()); least > left {
			left, best = least, i
		}
	}
	v = proofWanted()
	switch {
	case left >= cost:
		return left, true, v
	case left < 0:
		return -1, false, v
	}
	v.reason, v.status = OverLimit, http.StatusTooManyRequests
	v.retryAfter = e.memory.Peek(now, policyOf(best), &candidates[best], cost).Wait
	if best < own {
		rest := restOf(now, &shown.own[best].own)
		if v.retryAfter >= rest && asksShared { // it is used up for good
			v.retryAfter = e.memory.Peek(now, who.tier.policy, &candidates[own], cost).Wait
		} else {
			v.retryAfter = min(v.retryAfter, rest)
		}
	}
	return left, false, v
}

// writeTurnDown answers a refusal, with the challenge that is offered.
func (e *engine) writeTurnDown(now time.Time, w http.ResponseWriter, r *http.Request, dc *decisionContext, who *subject, o offer) {
	if o.challenge != nil {
		dc.decision.withExtras().Offered = o.challenge
	}
	e.answer(now, dc, who, new(credentials), answerFields{}, offerFields{challenge: o.field})
	reply.ForbidStoring(w.Header())
	dc.setFields(w, r)
	e.refuse(w, dc.asking(r), dc, nil)
}

// setFields puts the fields into the response, beside those of a limiter that the endpoints are
// mounted in.
func (dc *decisionContext) setFields(w http.ResponseWriter, r *http.Request) {
	if outer := contextOf(dc.Context); outer != nil && dc.joins(outer, w, r) {
		dc.reply.Fields.Within(&outer.reply.Fields, nil)
	}
	dc.reply.Fields.Set(w.Header())
}

// answerRedeem answers the token, or the cookie, that a proof buys.
func (e *engine) answerRedeem(now time.Time, w http.ResponseWriter, r *http.Request, dc *decisionContext, who *subject) {
	var reason Reason
	text := r.Header.Get(ProofHeader)
	receipt, err := e.challenge.issuer.Verify(now, e.challenge.binding(who.bytes), text)
	switch {
	case text == "":
	case err != nil:
		reason = e.challenge.proofReason(now, who, &receipt, err)
	case e.challenge.mode == EveryRequest:
		e.writeBought(w, r, e.carriage.setProofCookie(now, w, text, &receipt))
		return
	default:
		own, sale := e.challenge.redeem(now, who, &receipt)
		if sale.Granted {
			e.answer(now, dc, who, &credentials{fields: r.Header}, answerFields{own: &own, tally: new(limiter.Tally)}, offerFields{})
			dc.reply.Fields.Lines[reply.Policy] = "" // it has not been asked
			dc.setFields(w, r)
			e.writeBought(w, r, own.Expires-now.Unix())
			return
		}
		reason = saleReason(&sale)
	}
	dc.decision.noteProof(reason)
	e.challenge.proofs.note(reason)
	o := e.challenge.offer(now, who)
	v := proofWanted().offering(o)
	v.jitter()
	dc.decision.conclude(&v)
	e.writeTurnDown(now, w, r, dc, who, o)
}

// writeBought answers for how many seconds it is good that was bought, and whether a cookie came with the proof.
// Where none came, the page has to ask whether its browser keeps what was bought.
func (e *engine) writeBought(w http.ResponseWriter, r *http.Request, left int64) {
	body := strconv.AppendInt([]byte(`{"expires-in":`), left, 10)
	if e.carriage.transport != HeaderOnly && e.carriage.showsCookie(r) {
		body = append(body, `,"carried":true`...)
	}
	writeJSON(w, body)
}

// tryCookie has a browser that shows no cookie of the policy send one along with its proof, if it keeps any.
func (c *carriage) tryCookie(w http.ResponseWriter, r *http.Request, life time.Duration) {
	if c.transport != HeaderOnly && !c.showsCookie(r) {
		w.Header().Add(reply.SetCookie, c.cookieName+keptSuffix+"=1; Max-Age="+strconv.FormatInt(int64(life/time.Second), 10)+c.cookieAttributes)
	}
}

// setProofCookie has a browser send the proof along with its next requests, and
// returns for how many seconds.
func (c *carriage) setProofCookie(now time.Time, w http.ResponseWriter, proof string, receipt *pow.Receipt) (left int64) {
	left = max(1, int64(receipt.Expires.Sub(now)/time.Second))
	if c.transport != HeaderOnly {
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
