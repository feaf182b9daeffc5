// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/storeless"
)

const page = "../../../docs/counters.md"

// The exchange of the page, byte for byte: what others build their owners by.
func TestTheWireIsThatOfItsPage(t *testing.T) {
	blocks, _, err := pages.Read(page)
	require.NoError(t, err)
	var want string
	for _, b := range blocks {
		if b.RunBy == t.Name() {
			want = b.Text
		}
	}
	now := func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}, Now: now}
	h := kit.Must(Serve(memory.New(1, now), cfg))(t)
	p := exactkit.PerHour(t, 5)

	var got strings.Builder
	cfg.Transport = transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text := strings.Replace(string(body), `"wait":10000`, `"wait":50`, 1) // without a deadline it is the most
		r = signed(cfg, []byte(text))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got.WriteString(text + "\n" + digestField + ": " + r.Header.Get(digestField) + "\n" + macField + ": " + r.Header.Get(macField) + "\n" + w.Body.String())
		return nil, io.EOF
	})
	c := kit.Must(Open([]string{"http://owner/"}, cfg))(t)
	_, err = c.Take(t.Context(), exact.Call{Key: "k1", Cost: 1, Policy: p, ID: "0123456789abcdef"})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, want, got.String())
}

// An owner of before refuses what costs something else on each limit: it must not charge the largest on all.
func TestCostsAreNotReadAsOne(t *testing.T) {
	p := kit.Must(exact.Compile("jobs", []storeless.Limit{{Name: "a", Quota: 9, Window: time.Minute}, {Name: "b", Quota: 9, Window: time.Minute}}))(t)
	is := exact.Call{Key: "k", Cost: 5, Costs: [storeless.MaxLimits]int64{1, 5}, Policy: p, ID: "x"}
	c := requestOf([]group{{{ctx: t.Context(), op: opTake, call: is}}}).Calls[0]
	require.Zero(t, c.Cost)
	require.Equal(t, []int64{1, 5}, c.Costs)
	read := exact.Call{}
	require.NoError(t, c.priced(&read))
	require.Equal(t, is.Costs, read.Costs)
	require.Equal(t, is.Cost, read.Cost)
	for _, wrong := range []call{{Cost: 5, Costs: []int64{1, 5}}, {Costs: make([]int64, storeless.MaxLimits+1)}} {
		require.ErrorIs(t, wrong.priced(&read), errMalformed)
	}
}

// Every member of the wire, and every error, is in the tables of the page, and nothing else is.
func TestEveryMemberIsOnThePage(t *testing.T) {
	_, all, err := pages.Read(page)
	require.NoError(t, err)
	tables := slices.DeleteFunc(all, func(table pages.Table) bool { return !strings.HasPrefix(table.Head, "| member of ") })
	require.Len(t, tables, 2)
	for i, of := range []struct {
		prefix string
		types  []reflect.Type
	}{
		{"calls[].", []reflect.Type{reflect.TypeFor[request](), reflect.TypeFor[call]()}},
		{"verdicts[].", []reflect.Type{reflect.TypeFor[answer](), reflect.TypeFor[verdict]()}},
	} {
		want, got := map[string]bool{}, map[string]bool{}
		for inner, typ := range of.types {
			for n := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(n).Tag.Get("json"), ",")
				want[strings.Repeat(of.prefix, inner)+name] = true
			}
		}
		for _, row := range tables[i].Rows {
			for name := range strings.SplitSeq(row[0], ", ") {
				name = strings.Trim(name, "`")
				if rest, ok := strings.CutPrefix(name, "."); ok {
					name = of.prefix + rest
				}
				got[name] = true
			}
		}
		require.Equal(t, want, got)
	}
	var named []string
	for _, row := range tables[1].Rows {
		if row[0] == "`.error`" {
			for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
				named = append(named, name[1])
			}
		}
	}
	constants := kit.Must(pages.Constants("."))(t)
	at := slices.IndexFunc(constants, func(c pages.Constant) bool { return c.Value == staleError })
	var errs []string
	for _, c := range constants {
		if c.Group == constants[at].Group {
			errs = append(errs, c.Value)
		}
	}
	require.ElementsMatch(t, errs, named)
}

// An owner that says what it should not has perhaps counted, and no call waits for ever.
func TestAnswersThatAreNone(t *testing.T) {
	const good = `"limits":[[4,800,0]]`
	for text, want := range map[string]error{
		`{"verdicts":[{"n":0,` + good + `}]}`:                        nil,
		`{"verdicts":[{"n":-1,` + good + `}]}`:                       exact.ErrMaybeCounted,
		`{"verdicts":[{"n":1,` + good + `}]}`:                        exact.ErrMaybeCounted,
		`{"verdicts":[]}`:                                            exact.ErrMaybeCounted,
		`{"verdicts":[{"n":0}]}`:                                     exact.ErrMaybeCounted,
		`{"verdicts":[{"n":0,"limits":[[4,800,0],[4,800,0]]}]}`:      exact.ErrMaybeCounted,
		`{"verdicts":[{"n":0,` + good + `,"receipt":{"at":"now"}}]}`: exact.ErrMaybeCounted,
		`{"verdicts":[{"n":0,"error":"busy"}]}`:                      exact.ErrBusy,
		`{"verdicts":[`:                                              exact.ErrMaybeCounted,
		`{"error":"malformed"}`:                                      exact.ErrNotCounted,
		`{"error":"stale"}`:                                          exact.ErrNotCounted,
		`{"error":"a later one"}`:                                    exact.ErrMaybeCounted,
	} {
		cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}}
		cfg.Transport = transport(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			sum := r.Header.Get(macField)
			for range 2 { // the second says again what was said
				_, _ = io.WriteString(w, newRing(cfg.Secrets).sign(answerLabel, sum, []byte(text))+" "+text+"\n")
			}
			return w.Result(), nil
		})
		c, err := Open([]string{"http://owner/"}, cfg)
		require.NoError(t, err)
		p := exactkit.PerHour(t, 5)
		_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.ErrorIs(t, err, want, text)
		require.False(t, errors.Is(err, exact.ErrMaybeCounted) && errors.Is(err, exact.ErrNotCounted), text)
	}
}

// A transport that panics is a call that failed, in whichever goroutine it was made.
func TestATransportThatPanics(t *testing.T) {
	cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}}
	cfg.Transport = transport(func(*http.Request) (*http.Response, error) { panic("a transport") })
	c, err := Open([]string{"http://owner/"}, cfg)
	require.NoError(t, err)
	p := exactkit.PerHour(t, 5)
	_, err = c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
}

// A body has room as it comes, whatever its length is said to be.
func TestABodyHasRoomAsItComes(t *testing.T) {
	cfg := Config{Secrets: [][]byte{make([]byte, 32)}}
	h := kit.Must(Serve(memory.New(1, nil), cfg))(t)
	for _, length := range []int64{maxRequest, 1 << 40} {
		r := signed(cfg, nil)
		body := &trickle{t: t}
		r.Body, r.ContentLength = body, length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Equal(t, maxRequest/2, body.came)
	}
}

// A trickle is a body of 512 bytes at a time that is cut amid.
type trickle struct {
	t    *testing.T
	came int
}

func (b *trickle) Read(p []byte) (int, error) {
	require.LessOrEqual(b.t, len(p), 2*b.came+8<<10, "room for what did not come")
	if b.came == maxRequest/2 {
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), 512)
	b.came += n
	return n, nil
}

func (b *trickle) Close() error { return nil }

// Unknown members are nothing to keep: a policy is kept as it is always written.
func TestPoliciesAreKeptAsTheyAreWritten(t *testing.T) {
	o := owner{policies: make(map[string]*exact.Policy)}
	text := encodePolicy(exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Hour}), time.Time{})
	want := kit.Must(o.policy(text))(t)
	for i := range 10 {
		long := append(bytes.TrimSuffix(bytes.Clone(text), []byte("}")), `,"x":"`+strings.Repeat("x", 1000*i)+`"}`...)
		got := kit.Must(o.policy(long))(t)
		require.Same(t, want, got, "calls of one policy are merged")
	}
	require.Len(t, o.policies, 1)
	require.Contains(t, o.policies, string(text))
}

// A window of the calendar is on the wire as its two ends and the next, and without its zone. A refund is dated by its
// charge. An owner that knows no calendar takes it for no window of another length: it does not know the algorithm.
func TestWindowsOfTheCalendarOnTheWire(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Name: "month", Quota: 5, Calendar: "month", Zone: "Europe/Berlin"})
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	const text = `{"name":"api","limits":[{"name":"month","algorithm":"calendar-month","quota":5,"window":2419200,"ends":[1772319600,1774994400,1777586400]}]}`
	require.Equal(t, text, string(encodePolicy(p, now)))
	read := kit.Must(decodePolicy([]byte(text)))(t)
	require.Equal(t, text, string(encodePolicy(read, time.Time{})), "it is passed on as it is")
	require.Equal(t, p.ID(0), read.ID(0))

	w := &waiter{ctx: t.Context(), op: opRefund, call: exact.Call{Policy: p}, charged: now.AddDate(0, 0, -30), receipt: new(receipt)}
	peek := &waiter{ctx: t.Context(), op: opPeek, call: exact.Call{Policy: p}}
	groups := []group{{w}, {peek}, {peek}}
	q := requestOf(groups)
	q.date(now, groups)
	require.Equal(t, []int{0, 1, 1}, []int{q.Calls[0].Policy, q.Calls[1].Policy, q.Calls[2].Policy})
	require.Contains(t, string(q.Policies[0]), `"ends":[1769900400,1772319600,1774994400]`)
	require.Equal(t, text, string(q.Policies[1]))

	for wrong, want := range map[string]error{
		strings.Replace(text, "1772319600", "1774994400", 1):   errMalformed,
		strings.Replace(text, ",1777586400", "", 1):            errMalformed,
		strings.Replace(text, "2419200", "2678400", 1):         errMalformed,
		strings.Replace(text, "calendar-month", "calendar", 1): errAlgorithm,
	} {
		_, err := decodePolicy([]byte(wrong))
		require.ErrorIs(t, err, want, wrong)
	}
}

// signed makes the request of a body.
func signed(cfg Config, body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	digest := digestOf(body)
	r.Header.Set(digestField, digest)
	r.Header.Set(macField, newRing(cfg.Secrets).sign(requestLabel, "", []byte(digest)))
	return r
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each error of the wire is an error of package exact, and after an unknown one the call may have
// been counted.
func TestEveryErrorIsOneOfACounter(t *testing.T) {
	for name, want := range map[string]error{
		staleError: exact.ErrNotCounted, contendedError: exact.ErrContended, busyError: exact.ErrBusy, fullError: exact.ErrFull, notCounted: exact.ErrNotCounted, noRefundError: exact.ErrNoRefund, lateRefund: exact.ErrLateRefund,
		callError: exact.ErrNotCounted, malformedError: exact.ErrNotCounted, algorithmError: exact.ErrNotCounted,
		maybeCounted: exact.ErrMaybeCounted, "a later one": exact.ErrMaybeCounted,
	} {
		require.ErrorIs(t, errorNamed(name), want, name)
	}
	require.ErrorContains(t, errorNamed(algorithmError), "the owner does not know an algorithm of the policy")
}
