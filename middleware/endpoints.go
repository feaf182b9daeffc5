package middleware

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// Endpoints returns the handler of the policy's own URLs, to be mounted at
// Config.Challenge.Path, and at no other place, without a method:
//
//	GET  <path>challenge  a fresh challenge, and whether the next request needs it;
//	                      ?cost=n if it costs n, not 1
//	POST <path>redeem     a proof, in the Tallystick-Proof field, for a token
//	GET  <path>tally.js   the script for browsers; see the package documentation
//	GET  <path>solver.js  and <path>tally.css: what goes with it
//
// Redeeming answers the family's first token: its count is zero and every byte
// derives from the challenge, so that a lost answer can be asked for again and
// a replay gains nothing. In [EveryRequest], and while the memory is full, it sets a
// cookie that carries the proof along with the next request, for forms that cannot
// send fields. Proofs that pages of other origins send are refused. Without a
// Challenge, or without its Path, all is 404; a challenge that names these URLs before
// Endpoints was called is logged.
func (m *Middleware) Endpoints() http.Handler {
	m.loaded()
	m.mounted.Store(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := m.engine.Load()
		if e.challenge == nil || e.challenge.path == "" {
			http.NotFound(unstored{w}, r)
			return
		}
		switch r.URL.Path {
		case e.challenge.path + "challenge":
			e.endpoint(w, r, http.MethodGet, e.answerChallenge)
		case e.challenge.path + "redeem":
			e.endpoint(w, r, http.MethodPost, e.answerRedeem)
		default:
			e.challenge.serveAsset(unstored{w}, r)
		}
	})
}

// An unstored keeps errors out of caches, also of those that are told to store all of a
// site: for a request that anybody can send, a 405 or a 412 would stand in the place of
// the script, and the 403 of another site's page in that of everybody's purchase.
type unstored struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (u unstored) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (u unstored) WriteHeader(status int) {
	if status >= 400 {
		forbidStoring(u.Header())
		u.Header().Set(fieldCache, noStore)
	}
	u.ResponseWriter.WriteHeader(status)
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

// endpoint answers for a client that can be told, by the right method, and not
// from a page of another site: that one could spend its visitor's address, and
// plant what it bought.
func (e *engine) endpoint(w http.ResponseWriter, r *http.Request, method string, answer func(http.ResponseWriter, *http.Request, *exchange, *inquiry)) {
	if !methodAllowed(unstored{w}, r, method) {
		return
	}
	if http.NewCrossOriginProtection().Check(r) != nil {
		http.Error(unstored{w}, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	x, now := &exchange{Context: r.Context()}, e.now()
	id, denial, ok := e.ask(&x.decision, r, now)
	if !ok {
		e.refuse(w, r.WithContext(x), x, denial)
		return
	}
	q := e.inquire(&x.decision, id, id.append(nil), now)
	answer(w, r, x, &q)
}

// answerChallenge answers a fresh challenge, at the price of this moment, and what
// a page must know to decide whether to take it on: "needed", and "left" where the
// limits say something. Where nobody sells, or no proof would help, it is the
// refusal that the next request would get.
func (e *engine) answerChallenge(w http.ResponseWriter, r *http.Request, x *exchange, q *inquiry) {
	d := &x.decision
	d.Reason, d.Status = NoToken, http.StatusForbidden
	left, enough := e.foresee(q, d, r, costOf(r, q))
	needed := !enough || e.challenge.mode == EveryRequest
	if e.challenge.mode != EveryRequest || enough {
		e.offer(q, x)
	}
	if d.Challenge == nil && needed {
		e.turnDown(w, r, x, q)
		return
	}
	body := strconv.AppendBool([]byte(`{"needed":`), needed)
	if left >= 0 && e.quiet == QuietOff {
		body = strconv.AppendInt(append(body, `,"left":`...), left, 10)
	}
	if d.Challenge != nil {
		w.Header().Set(ChallengeHeader, x.fields.values[iChallenge])
		body = appendTerms(append(body, ','), d.Challenge)
	}
	writeJSON(w, body)
}

// costOf returns what the request that the client has in mind is going to cost. Only
// the client knows: Config.Cost has seen no such request. A lie misleads nobody else.
func costOf(r *http.Request, q *inquiry) int64 {
	cost, err := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 1
	}
	return max(1, min(cost, q.tier.policy.Capacity()))
}

// foresee looks at the limits without charging them: what they leave to a client
// that shows what r shows, or -1 if they cannot be asked or nobody could be
// remembered, and whether that is enough for a request of this cost.
func (e *engine) foresee(q *inquiry, d *Decision, r *http.Request, cost int64) (left int64, enough bool) {
	e.read(q, r)
	families := e.families(q)
	if e.challenge.mode != Newcomers {
		f := e.shared(q)
		f.MustKeep = e.challenge.mode != EveryRequest
		families = append(families, f)
	}
	n := q.tier.policy.Len()
	left, best, full := int64(-1), 0, false
	for i := range families {
		v := storeless.Peek(e.memory, q.tier.policy, q.now, &families[i], 0)
		if v.Saturated {
			full = true
		} else if least := v.Least(n); least > left {
			left, best = least, i
		}
	}
	switch {
	case left >= cost:
		return left, true
	case full:
		d.Reason = MemoryFull
		return -1, false
	case left < 0:
		return -1, false
	}
	d.Reason, d.Status = OverLimit, http.StatusTooManyRequests
	d.RetryAfter = storeless.Peek(e.memory, q.tier.policy, q.now, &families[best], cost).Wait
	return left, false
}

// turnDown answers a refusal, with the challenge that was offered.
func (e *engine) turnDown(w http.ResponseWriter, r *http.Request, x *exchange, q *inquiry) {
	e.fill(x, q, nil, nil, nil)
	x.set(w.Header())
	e.refuse(w, r.WithContext(x), x, nil)
}

// set puts the fields into h, beside those of a limiter that the endpoints are
// mounted in.
func (x *exchange) set(h http.Header) {
	if outer, ok := x.Context.Value(exchangeKey{}).(*exchange); ok {
		x.fields.within(&outer.fields)
	}
	x.fields.set(h)
}

// answerRedeem answers the token, or the cookie, that a proof buys.
func (e *engine) answerRedeem(w http.ResponseWriter, r *http.Request, x *exchange, q *inquiry) {
	d := &x.decision
	d.Reason, d.Status = NoToken, http.StatusForbidden
	text := r.Header.Get(ProofHeader)
	receipt, err := e.challenge.issuer.Verify(q.now, e.binding(q.who), text)
	switch {
	case text == "":
	case err != nil:
		d.Proof = proofReason(err)
	case e.challenge.mode == EveryRequest:
		left := e.setProofCookie(w, text, &receipt, q.now)
		writeJSON(w, strconv.AppendInt([]byte(`{"expires-in":`), left, 10))
		return
	default:
		own, sale := e.redeem(q, &receipt)
		if sale.Granted {
			q.tier = &e.base
			f := storeless.Family{Key: e.ownKey(own.ID), MustKeep: true}
			good := own.Expires - q.now.Unix()
			if storeless.Peek(e.memory, q.tier.policy, q.now, &f, 0).Saturated {
				// A token that nobody could remember is not believed: the proof itself
				// must come with the request, and forms have no other way to send it.
				good = e.setProofCookie(w, text, &receipt, q.now)
			}
			e.fill(x, q, nil, &own, new(storeless.Tally))
			x.fields.values[iPolicy] = "" // it has not been asked
			x.set(w.Header())
			writeJSON(w, strconv.AppendInt([]byte(`{"expires-in":`), good, 10))
			return
		}
		d.Proof = saleReason(&sale)
	}
	e.offer(q, x)
	e.turnDown(w, r, x, q)
}

// setProofCookie has a browser send the proof along with its next requests, and
// returns for how many seconds.
func (e *engine) setProofCookie(w http.ResponseWriter, proof string, receipt *pow.Receipt, now time.Time) (left int64) {
	left = max(1, int64(receipt.Expires.Sub(now)/time.Second))
	if e.carriage != CarryHeader {
		w.Header().Add(fieldCookie, e.proofCookie+"="+proof+"; Max-Age="+strconv.FormatInt(left, 10)+e.cookieAttributes)
	}
	return left
}

// writeJSON writes an object that lacks its closing brace.
func writeJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	forbidStoring(h)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", noStore)
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, "}\n"...))
}
