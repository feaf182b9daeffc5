// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/pages"
)

// A maker makes a handler that it limits to five requests a minute: an instance.
type maker func(t *testing.T, next http.Handler) http.Handler

func ours(_ *testing.T, next http.Handler) http.Handler { return after(next, loopback.Secret) }

// Stores that tidy up have goroutines, which would outlive a test's clock.
var limiters = map[string]maker{
	"httprate":  func(_ *testing.T, next http.Handler) http.Handler { return beforeHTTPRate(next) },
	"tollbooth": func(_ *testing.T, next http.Handler) http.Handler { return beforeTollbooth(next) },
	"ulule/limiter": func(_ *testing.T, next http.Handler) http.Handler {
		return beforeUlule(memory.NewStoreWithOptions(ulule.StoreOptions{Prefix: ulule.DefaultPrefix}), next)
	},
	"go-limiter": func(t *testing.T, next http.Handler) http.Handler {
		store, err := memorystore.New(&memorystore.Config{Tokens: 5, Interval: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
		return beforeGoLimiter(store, next)
	},
}

// ask sends a request from an address, with the fields, name and value in turn.
func ask(h http.Handler, addr string, fields ...string) *http.Response {
	return askFor(h, "/contact", addr, fields...)
}

func askFor(h http.Handler, path, addr string, fields ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.RemoteAddr = addr
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

const client = "192.0.2.1:4711"

// count returns how many of n requests are admitted.
func count(n int, send func(i int) *http.Response) (admitted int) {
	for i := range n {
		if send(i).StatusCode == http.StatusOK {
			admitted++
		}
	}
	return admitted
}

// A finder finds something out about a limiter.
type finder func(t *testing.T, instance func() http.Handler) string

// ofTwenty finds how many of twenty requests one instance admits.
func ofTwenty(send func(h http.Handler, i int) *http.Response) finder {
	return func(_ *testing.T, instance func() http.Handler) string {
		h := instance()
		return fmt.Sprint(count(20, func(i int) *http.Response { return send(h, i) }))
	}
}

// measures are the rows of the table in docs/recipes.md: what is asked, and how it is found out, each
// with instances of its own.
var measures = []struct {
	row     string
	byClock bool // it takes time
	find    finder
}{
	{"two instances in turn, one client that sends back what it gets: of 20 admitted", false, func(_ *testing.T, instance func() http.Handler) string {
		instances, token := []http.Handler{instance(), instance()}, ""
		return fmt.Sprint(count(20, func(i int) *http.Response {
			resp := ask(instances[i%2], client, middleware.TokenHeader, token)
			if newer := resp.Header.Get(middleware.TokenHeader); newer != "" {
				token = newer
			}
			return resp
		}))
	}},
	{"the same, of a client that does not", false, func(_ *testing.T, instance func() http.Handler) string {
		instances := []http.Handler{instance(), instance()}
		return fmt.Sprint(count(20, func(i int) *http.Response { return ask(instances[i%2], client) }))
	}},
	{"a made-up `X-Forwarded-For` each time: of 20 admitted", false, ofTwenty(func(h http.Handler, i int) *http.Response {
		return ask(h, client, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
	})},
	{"20 addresses of one IPv6 /64: of 20 admitted", false, ofTwenty(func(h http.Handler, i int) *http.Response { return ask(h, fmt.Sprintf("[2001:db8::%x]:4711", i+1)) })},
	{"two paths under one limiter: of 20 admitted", false, ofTwenty(func(h http.Handler, i int) *http.Response { return askFor(h, fmt.Sprintf("/%d", i%2), client) })},
	{"1 at 0:00, 20 at 0:59, 20 at 1:01: admitted at 0:59 and 1:01", true, func(_ *testing.T, instance func() http.Handler) string {
		h := instance()
		same := func(int) *http.Response { return ask(h, client) }
		same(0)
		time.Sleep(59 * time.Second)
		before := count(20, same)
		time.Sleep(2 * time.Second)
		return fmt.Sprintf("%d, %d", before, count(20, same))
	}},
	{"one a second for 3 minutes: of 180 admitted", true, func(_ *testing.T, instance func() http.Handler) string {
		h := instance()
		return fmt.Sprint(count(180, func(int) *http.Response {
			defer time.Sleep(time.Second)
			return ask(h, client)
		}))
	}},
	{"fields of an admitted answer", false, func(_ *testing.T, instance func() http.Handler) string {
		names := slices.Sorted(maps.Keys(ask(instance(), client).Header))
		return "`" + strings.Join(names, "` `") + "`"
	}},
	{"a refusal", false, func(_ *testing.T, instance func() http.Handler) string {
		resp := refused(instance(), 0)
		media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		return fmt.Sprintf("%d, `%s`", resp.StatusCode, media)
	}},
	{"its `Retry-After`, at once", false, func(t *testing.T, instance func() http.Handler) string { return wait(t, refused(instance(), 0)) }},
	{"its `Retry-After`, 30 s later", true, func(t *testing.T, instance func() http.Handler) string {
		return wait(t, refused(instance(), 30*time.Second))
	}},
}

// refused uses the quota up, and returns what is said after a while.
func refused(h http.Handler, later time.Duration) (resp *http.Response) {
	for range 5 {
		ask(h, client)
	}
	time.Sleep(later)
	for range 5 { // a bucket has refilled a little
		resp = ask(h, client)
	}
	return resp
}

// wait tells a Retry-After. Ours has jitter upwards, a tenth at the most.
func wait(t *testing.T, resp *http.Response) string {
	value := resp.Header.Get("Retry-After")
	if _, least, found := strings.Cut(resp.Header.Get("RateLimit"), ";t="); found && value != "" {
		from, err := strconv.Atoi(least)
		require.NoError(t, err)
		seconds, err := strconv.Atoi(value)
		require.NoError(t, err)
		require.GreaterOrEqual(t, seconds, from)
		require.LessOrEqual(t, seconds, from+from/10+1)
		return fmt.Sprintf("%s s and up to a tenth", least)
	}
	switch _, err := strconv.Atoi(value); {
	case value == "":
		return "none"
	case err != nil:
		_, err := time.Parse(time.RFC1123, value)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(value, " UTC"), value)
		return "a date, in `UTC` where RFC 9110 demands `GMT`"
	}
	return value + " s"
}

// measure runs a measure by a clock of its own, which stands at the beginning of a minute.
func measure(t *testing.T, l maker, find finder) (found string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		found = find(t, func() http.Handler {
			return l(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		})
	})
	return found
}

// The table of the page is what is measured, to the letter.
func TestTableOfThePage(t *testing.T) {
	rows := column(t, "5 a minute")
	require.Len(t, rows, len(measures))
	for i, m := range measures {
		require.Equal(t, m.row, rows[i])
	}
	check(t, "Tallystick", true, func(find finder) string { return measure(t, ours, find) })
	for name, theirs := range limiters {
		t.Run(name, func(t *testing.T) {
			// go-limiter reads the machine's clock, past package time.
			check(t, name, name != "go-limiter", func(find finder) string { return measure(t, theirs, find) })
		})
	}
}

// check compares a limiter's column with what is measured. Where its clock cannot be set, there is a dash for what takes time.
func check(t *testing.T, name string, byClock bool, measured func(finder) string) {
	t.Helper()
	var found []string
	for _, m := range measures {
		if m.byClock && !byClock {
			found = append(found, "–")
			continue
		}
		found = append(found, measured(m.find))
	}
	require.Equal(t, found, column(t, name), name)
}

// column returns a column of the table of the page.
func column(t *testing.T, name string) (cells []string) {
	t.Helper()
	_, tables, err := pages.Read("../../../docs/recipes.md")
	require.NoError(t, err)
	i := slices.IndexFunc(tables, func(table pages.Table) bool { return strings.HasPrefix(table.Head, "| 5 a minute |") })
	require.GreaterOrEqual(t, i, 0)
	at := slices.Index(strings.Split(strings.Trim(tables[i].Head, "| "), " | "), name)
	require.GreaterOrEqual(t, at, 0, "%s: %s", name, tables[i].Head)
	for _, row := range tables[i].Rows {
		cells = append(cells, row[at])
	}
	return cells
}

// What the page says of key functions that fail, of a proxy's field, and of the fields of Retry-After.
func TestWhatThePageSaysBeside(t *testing.T) {
	fails := func(*http.Request) (string, error) { return "", errors.New("no such customer") }
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	status := func(h http.Handler, fields ...string) (int, string) {
		resp := ask(h, client, fields...)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}

	code, body := status(httprate.LimitBy(5, time.Minute, fails)(next))
	require.Equal(t, http.StatusPreconditionRequired, code)
	require.Equal(t, "no such customer\n", body)

	store, err := memorystore.New(&memorystore.Config{Tokens: 5, Interval: time.Minute})
	require.NoError(t, err)
	defer store.Close(context.Background())
	m, err := httplimit.NewMiddleware(store, fails)
	require.NoError(t, err)
	code, _ = status(m.Handle(next))
	require.Equal(t, http.StatusInternalServerError, code)

	cfg := loopback.Config("contact", 5)
	cfg.Identity = func(*http.Request) (middleware.Identity, error) {
		return middleware.Identity{}, errors.New("no such customer")
	}
	code, body = status(loopback.New(t, cfg).Handler(next))
	require.Equal(t, http.StatusForbidden, code)
	require.NotContains(t, body, "customer")

	// ulule takes the first entry, go-limiter the whole field: the client's own either way.
	trusting := ulule.New(memory.NewStoreWithOptions(ulule.StoreOptions{}), ulule.Rate{Period: time.Minute, Limit: 5}, ulule.WithTrustForwardHeader(true))
	h := stdlib.NewMiddleware(trusting).Handler(next)
	require.Equal(t, 20, count(20, func(i int) *http.Response {
		return ask(h, client, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 192.0.2.9", i))
	}))
	m, err = httplimit.NewMiddleware(store, httplimit.IPKeyFunc("X-Forwarded-For"))
	require.NoError(t, err)
	require.Equal(t, 20, count(20, func(i int) *http.Response {
		return ask(m.Handle(next), client, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 192.0.2.9", i))
	}))
	identity, err := middleware.ForwardedFor(netip.MustParsePrefix("192.0.2.1/32"))
	require.NoError(t, err)
	cfg.Identity = identity
	h = loopback.New(t, cfg).Handler(next)
	require.Equal(t, 5, count(20, func(i int) *http.Response {
		return ask(h, client, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 192.0.2.9", i))
	}))
}
