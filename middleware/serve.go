package middleware

import "net/http"

// serve limits one request: decide, tell, then refuse it or pass it on.
func (e *engine) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if preflight(r) || e.skip != nil && e.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	dc, now := &decisionContext{Context: r.Context()}, e.now()
	dc.fields.now = now
	denial := e.decide(now, r, dc)
	if outer := contextOf(dc.Context); outer != nil {
		dc.fields.within(&outer.fields)
	}
	d := &dc.decision
	// A denial is obeyed even in shadow mode: it may be what guards the door.
	d.Allowed = d.Admitted || e.shadow && denial == nil
	r = r.WithContext(dc)
	if e.onDecision != nil {
		e.onDecision(r, *d)
	}
	switch {
	case !d.Allowed:
		dc.fields.set(w.Header())
		e.refuse(w, r, dc, denial)
	case r.Method == http.MethodGet || r.Method == http.MethodHead || dc.fields.paid:
		guard, wrapped := wrap(w, &dc.fields)
		defer guard.settle() // wrote nothing, or panicked: the fields are for whoever recovers
		next.ServeHTTP(wrapped, r)
	default:
		h := w.Header()
		if len(h) > 0 && dc.fields.values[iCache] != "" {
			forbidStoring(h)
		}
		dc.fields.set(h)
		next.ServeHTTP(w, r)
	}
}

// preflight reports whether r is a CORS preflight (Fetch standard, 4.8). The
// browser sends it without credentials and without asking its user: it is
// neither charged nor refused. Any other OPTIONS request is an ordinary one, and so is
// what no browser would send: a preflight has no credentials and no body.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.ContentLength == 0 &&
		len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0 &&
		len(r.Header["Cookie"]) == 0 && len(r.Header["Authorization"]) == 0
}
