// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

const page = "../../../docs/remote.md"

// The exchange of the page, byte for byte: what others build their owners by.
func TestTheWireIsThatOfItsPage(t *testing.T) {
	blocks, _, err := printed.Read(page)
	require.NoError(t, err)
	var want string
	for _, b := range blocks {
		if b.RunBy == t.Name() {
			want = b.Text
		}
	}
	now := func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}, Now: now}
	h, err := Serve(exact.NewMemory(1, now), cfg)
	require.NoError(t, err)
	p, err := exact.Compile("api", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Hour}})
	require.NoError(t, err)

	var got strings.Builder
	cfg.Transport = transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text := strings.Replace(string(body), `"wait":10000`, `"wait":50`, 1) // without a deadline it is the most
		sum := newRing(cfg.Secrets).sign(requestLabel, "", []byte(text))
		r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set(macField, sum)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got.WriteString(text + "\n" + macField + ": " + sum + "\n" + w.Body.String() + "\n" + macField + ": " + w.Header().Get(macField) + "\n")
		return nil, io.EOF
	})
	c, err := Open([]string{"http://owner/"}, cfg)
	require.NoError(t, err)
	_, err = c.Take(t.Context(), exact.Call{Key: "k1", Cost: 1, Policy: p, ID: "0123456789abcdef"})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, want, got.String())
}

// Every member of the wire, and every error, is in the tables of the page, and nothing else is.
func TestEveryMemberIsOnThePage(t *testing.T) {
	_, tables, err := printed.Read(page)
	require.NoError(t, err)
	require.Len(t, tables, 2)
	for i, of := range []struct {
		prefix string
		types  []reflect.Type
	}{
		{"", []reflect.Type{reflect.TypeFor[request]()}},
		{"verdicts[].", []reflect.Type{reflect.TypeFor[answer](), reflect.TypeFor[verdict]()}},
	} {
		want, got := map[string]bool{}, map[string]bool{}
		for _, typ := range of.types {
			for n := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(n).Tag.Get("json"), ",")
				if typ == reflect.TypeFor[verdict]() {
					name = of.prefix + name
				}
				want[name] = true
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
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, name := range []string{staleError, busyError, fullError, notCounted, noRefundError, callError, maybeCounted, malformedError, algorithmError, contendedError} {
		require.Contains(t, string(text), "`"+name+"`")
	}
}

// A take whose calls have no IDs could be recorded and repeated. Nothing of it is counted.
func TestCallsMustHaveIDs(t *testing.T) {
	now := func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	counter := exact.NewMemory(1, now)
	cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}, Now: now}
	h, err := Serve(counter, cfg)
	require.NoError(t, err)
	p, err := exact.Compile("api", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Hour}})
	require.NoError(t, err)
	for what, ids := range map[string][]string{"none": nil, "an empty one": {""}, "one of two": {"YQ", ""}, "no base64url": {"="}, "too many": make([]string, maxCalls+1)} {
		body, err := json.Marshal(request{Op: "take", At: now().UnixMilli(), Wait: 50, Key: "azE", Cost: 1, Policy: encodePolicy(p), IDs: ids})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set(macField, newRing(cfg.Secrets).sign(requestLabel, "", body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, `{"at":1900000000000,"error":"call"}`, w.Body.String(), what)
	}
	v, err := counter.Peek(t.Context(), exact.Call{Key: "k1", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, 5, v.Limits[0].Remaining)
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each error of the wire is an error of package exact, and what nobody knows may be counted.
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

// Of calls that take more than one request, those of the first may be counted when the second
// is not: nothing of the error says that nothing was.
func TestSomeOfManyCallsMayBeCounted(t *testing.T) {
	now := func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	cfg := Config{Secrets: [][]byte{[]byte(strings.Repeat("a", 32))}, Now: now}
	h, err := Serve(exact.NewMemory(1, now), cfg)
	require.NoError(t, err)
	p, err := exact.Compile("api", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Hour}})
	require.NoError(t, err)
	for _, fails := range []error{exact.ErrFull, exact.ErrBusy, exact.ErrNotCounted} {
		asked := 0
		cfg.Transport = transport(func(r *http.Request) (*http.Response, error) {
			to := h
			if asked++; asked == 2 {
				if to, err = Serve(only{fails}, cfg); err != nil {
					return nil, err
				}
			}
			w := httptest.NewRecorder()
			to.ServeHTTP(w, r)
			return w.Result(), nil
		})
		c, err := Open([]string{"http://owner/"}, cfg)
		require.NoError(t, err)
		calls := make([]exact.Call, maxCalls+1)
		for i := range calls {
			calls[i] = exact.Call{Key: "k", Cost: 1, Policy: p}
		}
		_, err = c.engine.TakeAll(t.Context(), calls)
		require.ErrorIs(t, err, exact.ErrMaybeCounted)
		require.NotErrorIs(t, err, exact.ErrNotCounted)
		require.ErrorContains(t, err, "not counted", "it says why")
	}
}

// only is a counter with one answer.
type only struct{ error }

func (o only) Take(context.Context, exact.Call) (exact.Verdict, error) {
	return exact.Verdict{}, o.error
}
func (o only) Peek(context.Context, exact.Call) (exact.Verdict, error) {
	return exact.Verdict{}, o.error
}
func (o only) Refund(context.Context, exact.Receipt) error { return o.error }
