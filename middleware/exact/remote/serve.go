// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A served counter hears callers that have a secret.
type served struct {
	owner owner
	keys  ring
	now   func() time.Time
	began int64 // Unix ms

	log  *slog.Logger
	rang atomic.Int64 // when a caller with another secret was told of last, in Unix seconds
}

// Serve returns a handler that lets [Open] call a counter. It answers only callers that have a secret.
// It makes calls that come together at once, each for itself. The clock of the counter must agree with
// cfg.Now, because callers say by it which windows of the calendar they mean. Serve reports all
// problems of cfg, each a [storeless.ConfigError].
func Serve(counter exact.Counter, cfg Config) (http.Handler, error) {
	errs := cfg.check()
	if counter == nil {
		errs = append(errs, errors.New("remote: the counter to be served is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	now := cfg.clock()
	_, quick := counter.(interface{ InProcess() })
	return &served{owner: owner{counter: counter, quick: quick, policies: make(map[string]*exact.Policy)}, keys: newRing(cfg.Secrets), now: now, began: now().UnixMilli(), log: cmp.Or(cfg.Logger, slog.Default())}, nil
}

// Format writes no more than where the handler is from, so that no log of it shows its keys.
func (s *served) Format(f fmt.State, _ rune) { fmt.Fprint(f, "remote.Serve") }

// ServeHTTP implements [http.Handler].
func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		dismiss(w, "a counter is asked by POST", http.StatusMethodNotAllowed)
		return
	}
	sum, digest := r.Header.Get(macField), r.Header.Get(digestField)
	// Strangers choose how long a header is: no MAC is made of what is no digest.
	formed := len(digest) == digestLen && len(sum) == macLen
	if !formed || !s.keys.verifies(requestLabel, "", []byte(digest), sum) {
		if formed {
			s.tellOfSecrets()
		}
		dismiss(w, "the request is not signed with a secret of this counter", http.StatusUnauthorized)
		return
	}
	body, err := readBody(w, r)
	switch {
	case err != nil:
		http.Error(w, "the request is too long, or was cut", http.StatusBadRequest)
		return
	case digestOf(body) != digest:
		http.Error(w, "the request is not what was signed", http.StatusUnauthorized)
		return
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["Date"] = []string{"text/plain"}, []string{"no-store"}, nil
	begun := false
	say := func(a answer, last bool) {
		a.At = s.now().UnixMilli()
		text, err := json.Marshal(&a)
		if err != nil {
			panic(err) // strings and integers
		}
		line := append(append([]byte(s.keys.sign(answerLabel, sum, text)+" "), text...), '\n')
		if last && !begun {
			h["Content-Length"] = []string{strconv.Itoa(len(line))}
		}
		begun = true
		_, _ = w.Write(line) // the caller is gone, or not
		if !last {
			_ = http.NewResponseController(w).Flush() // or all lines come together
		}
	}
	q, refused := s.read(body)
	if refused != "" {
		say(answer{Error: refused}, true)
		return
	}
	s.owner.answer(r.Context(), q, func(some []verdict, last bool) { say(answer{Verdicts: some}, last) })
}

// tellOfSecrets tells, once a minute, that a caller asks in our words, by another secret. The caller hears of it
// in its errors, but the operator of this process has no other sign.
func (s *served) tellOfSecrets() {
	last, now := s.rang.Load(), s.now().Unix()
	if now >= last && now < last+60 || !s.rang.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn("tallystick: a caller signs with a secret that this counter does not have, or asks by an address that is not this counter's",
		"code", "remote-secret-unknown", "remedy", "give all processes the same Secrets, and the same words for each address; if it is a stranger, close the port to it",
		"page", "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#remote-secret-unknown")
}

// dismiss answers a stranger, and has done with the connection: net/http would wait for the body before it
// answers, and again before it closes, for as long as the stranger likes.
func dismiss(w http.ResponseWriter, why string, status int) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, why, status)
}

// firstRoom is how much room a body has at most before it comes.
const firstRoom = 4 << 10

// readBody reads a body that a caller with a secret has signed. A recorded one may be sent again
// and never come or end: it has no longer than a caller waits for an answer, and room as it comes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(maxWait)) // where there is a connection
	var body bytes.Buffer
	body.Grow(int(min(max(0, r.ContentLength), firstRoom)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		_ = connection.SetReadDeadline(time.Time{}) // or it would end what is done from here on
	}
	return body.Bytes(), err
}

// read reads a request, or returns why it is refused as a whole.
func (s *served) read(body []byte) (q *request, refused string) {
	q, now := new(request), s.now().UnixMilli()
	if json.Unmarshal(body, q) != nil || len(q.Calls) < 1 || len(q.Calls) > maxCalls {
		return nil, malformedError
	}
	verdicts := 0
	for i := range q.Calls {
		verdicts += q.Calls[i].verdicts()
	}
	if verdicts > maxIDs {
		return nil, malformedError
	}
	if off := now - q.At; off > skew.Milliseconds() || off < -skew.Milliseconds() {
		return nil, staleError
	}
	if q.At < s.began && s.began <= now {
		// A counter may know IDs for no longer than its process lives, and what was recorded
		// before it was started again would be charged again. A caller whose clock is behind
		// learns the time from this answer. Where the clock has stepped back behind the
		// beginning, that says nothing: it would be an outage for as long as it was ahead.
		return nil, staleError
	}
	return q, ""
}
