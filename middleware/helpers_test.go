// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// Names of package handlers that many tests use. A helper that one file uses has its full name there.
type (
	altered = handlers.Altered
	clock   = handlers.Clock
	option  = handlers.Option
	problem = handlers.Problem
	sink    = handlers.Sink
	site    = handlers.Site
	spy     = handlers.Spy
)

const (
	laneQuota = handlers.LaneQuota
)

var (
	address           = handlers.Address
	admitted          = handlers.Admitted
	admittedWith      = handlers.AdmittedWith
	allModes          = handlers.AllModes
	allocated         = handlers.Allocated
	allowed           = handlers.Allowed
	bodyOf            = handlers.BodyOf
	bought            = handlers.Bought
	byTier            = handlers.ByTier
	challengeIn       = handlers.ChallengeIn
	challenging       = handlers.Challenging
	check             = handlers.Check
	claimsIn          = handlers.ClaimsIn
	clientAt          = handlers.ClientAt
	contact           = handlers.Contact
	cookieIn          = handlers.CookieIn
	costOf            = handlers.CostOf
	costing           = handlers.Costing
	counting          = handlers.Counting
	decided           = handlers.Decided
	fetched           = handlers.Fetched
	fixed             = handlers.Fixed
	fleet             = handlers.Fleet
	forgery           = handlers.Forgery
	from              = handlers.From
	hint              = handlers.Hint
	holding           = handlers.Holding
	html              = handlers.HTML
	inParallel        = kit.Together
	limited           = handlers.Limited
	logTo             = handlers.LogTo
	login             = handlers.Login
	metered           = handlers.Metered
	method            = handlers.Method
	midnight          = handlers.Midnight
	mustIdentity      = handlers.MustIdentity
	newLimiter        = handlers.NewLimiter
	newSite           = handlers.NewSite
	only              = handlers.Only
	over              = handlers.Over
	paid              = handlers.Paid
	path              = handlers.Path
	peeked            = handlers.Peeked
	polite            = handlers.Polite
	problemIn         = handlers.ProblemIn
	proving           = handlers.Proving
	proxies           = handlers.Proxies
	proxyTo           = handlers.ProxyTo
	random            = handlers.Random
	reader            = handlers.Reader
	record            = handlers.Record
	redeemed          = handlers.Redeemed
	refusedWithTicket = handlers.RefusedWithTicket
	requireHeader     = handlers.RequireHeader
	requireStatus     = handlers.RequireStatus
	secret            = handlers.Secret
	send              = handlers.Send
	serve             = handlers.Serve
	showing           = handlers.Showing
	showingCookie     = handlers.ShowingCookie
	solve             = handlers.Solve
	solved            = handlers.Solved
	spend             = handlers.Spend
	thief             = handlers.Thief
	ticketsOf         = handlers.TicketsOf
	tokenIn           = handlers.TokenIn
	visitor           = handlers.Visitor
	waitCookieIn      = handlers.WaitCookieIn
	waiting           = handlers.Waiting
	with              = handlers.With
)

// cookieNames returns the names of the cookies that a response sets.
func cookieNames(resp *http.Response) (names []string) {
	for _, c := range resp.Cookies() {
		names = append(names, c.Name)
	}
	return names
}

// contactForm is the policy of the demo: 5 per minute and 50 per day, sliding.
func contactForm(c *clock) middleware.Config {
	cfg := contact(c)
	cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}
	return cfg
}

// echoing shows with each request the newest token that the one before was answered with, as clients do.
func echoing(h http.Handler) http.Handler {
	tok := ""
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		showing(tok)(r)
		h.ServeHTTP(w, r)
		if next := w.Header().Get(middleware.TokenHeader); next != "" {
			tok = next
		}
	})
}

// together sends n equal requests at once, and returns how many were answered 200.
func together(h http.Handler, n int, options ...option) int {
	var passed atomic.Int64
	inParallel(n, func(int) { passed.Add(int64(admitted(h, 1, options...))) })
	return int(passed.Load())
}

func TestMain(m *testing.M) { handlers.Main(m) }

// onSocket serves on a Unix socket, where no connection has an address, and returns its client.
func onSocket(t testing.TB, h http.Handler) *http.Client {
	t.Helper()
	listener := kit.Must(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// browser serves over TLS, and returns where, and a client with a jar: that keeps a __Host- cookie only if
// it came by it.
func browser(t testing.TB, h http.Handler) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	client = server.Client()
	client.Jar = kit.Must(cookiejar.New(nil))(t)
	return server.URL, client
}

// upgraded takes a connection over, and answers that its protocol is another.
func upgraded(t testing.TB, w http.ResponseWriter) net.Conn {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		panic(http.ErrAbortHandler)
	}
	_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = buf.Flush()
	return conn
}

// admittedOver is admitted over the network: of n requests those that are answered 200.
func admittedOver(t testing.TB, client *http.Client, url string, n int, options ...option) (passed int) {
	t.Helper()
	for range n {
		if over(t, client, url, options...).StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

// hanging takes connections over, but of a GET, and keeps each until it is told to close.
func hanging(t testing.TB, hang chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		conn := upgraded(t, w)
		go func() {
			<-hang
			_ = conn.Close()
			_ = conn.Close() // ends nothing twice
			hang <- struct{}{}
		}()
	}
}

var errEngine = errors.New("engine on fire")

// hasty is paid with the default deadline, 50 ms.
func hasty(c *clock, counter exact.Counter) middleware.Config {
	cfg := paid(c, counter)
	cfg.Exact.Deadline = 0
	return cfg
}

// notTaken is a call that fails at once, and notRefunded a refund.
func notTaken(err error) func(context.Context, exact.Call) (exact.Verdict, error) {
	return func(context.Context, exact.Call) (exact.Verdict, error) { return exact.Verdict{}, err }
}

func notRefunded(err error) func(context.Context, exact.Receipt) error {
	return func(context.Context, exact.Receipt) error { return err }
}

// paidRoute is an exact route, and its engine.
func paidRoute() (c *clock, l *ledger, cfg middleware.Config) {
	c = new(clock)
	l = newLedger(c)
	return c, l, paid(c, l)
}

// breaks has a counter fail for as long as it takes to open the breaker.
func breaks(h http.Handler, c *clock) {
	admitted(h, 5)
	c.Advance(time.Second)
	admitted(h, 3)
}

func onFire(context.Context, int) error { return errEngine }

func paidSite(t testing.TB) (c *clock, l *ledger, h *site) {
	t.Helper()
	c, l, cfg := paidRoute()
	return c, l, newSite(t, cfg)
}

func requireNoChallenge(t testing.TB, resp *http.Response) {
	t.Helper()
	require.Empty(t, resp.Header.Values(middleware.ChallengeHeader))
	require.NotContains(t, bodyOf(t, resp), "challenge")
}

// peerIdentity is the identity of a client that send speaks for, if nothing else is said.
var peerIdentity = middleware.Address(netip.MustParseAddr("203.0.113.1"))

// priceAfter is the price of the next tally, which its challenge asks for, after sold sales, none
// leaked.
func priceAfter(sold, crowd int, work uint64) uint64 {
	doubled, rest := work<<(sold/crowd), uint64(sold%crowd)
	price := doubled + (doubled*rest+uint64(crowd)-1)/uint64(crowd)
	return (price + 3) &^ 3
}

// retryAfter returns the Retry-After of a response, which must have one.
func retryAfter(t testing.TB, resp *http.Response) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err, "Retry-After with %s", resp.Status)
	require.Positive(t, seconds)
	return time.Duration(seconds) * time.Second
}

// A ledger is a counter in memory that notes what it is asked, and to which everything can happen that happens to engines.
type ledger struct {
	counter exact.Counter
	Now     func() time.Time

	mu      sync.Mutex
	calls   int            // that reached it
	Keys    map[string]int // and for whom
	Charged int64
	Ids     []string

	Fault func(ctx context.Context, call int) error // before a call is counted
	Lost  func(call int) bool                       // after: its answer never comes back

	PeekFault error
}

// newLedger returns a ledger without faults.
func newLedger(c *clock) *ledger {
	l := &ledger{Now: c.Now, Keys: make(map[string]int)}
	l.Forget()
	return l
}

// Forget has all accounts deleted. No call may be under way.
func (l *ledger) Forget() { l.counter = memory.New(0, func() time.Time { return l.Now() }) }

// Take implements [exact.Counter]. A call that was let through is counted, however late it is by then.
func (l *ledger) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.Keys[call.Key]++
	l.Ids = append(l.Ids, call.ID)
	l.mu.Unlock()
	if l.Fault != nil {
		if err := l.Fault(ctx, n); err != nil {
			return exact.Verdict{}, err
		}
	}
	v, err := l.counter.Take(context.WithoutCancel(ctx), call)
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Admitted && !v.Replayed {
		l.Charged += call.Cost
	}
	if l.Lost != nil && l.Lost(n) {
		return exact.Verdict{}, exact.ErrMaybeCounted
	}
	return v, err
}

func (l *ledger) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.PeekFault != nil {
		return exact.Verdict{}, l.PeekFault
	}
	return l.counter.Peek(ctx, call)
}

func (l *ledger) Refund(ctx context.Context, r exact.Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Charged -= r.Cost
	return l.counter.Refund(ctx, r)
}

func (l *ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// inAllModes runs a test in each of allModes.
func inAllModes(t *testing.T, f func(*testing.T, middleware.Mode)) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) { f(t, mode) })
	}
}

// settles has a request name what settling settles.
func settles(n int64) option { return with("X-Settle", strconv.FormatInt(n, 10)) }

// settling is a handler that settles what the request says, before the header or after.
func settling(t testing.TB, after bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := r.Header.Get("X-Settle")
		if s == "" {
			return
		}
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		if after {
			w.WriteHeader(http.StatusOK)
		}
		require.NoError(t, middleware.Settle(r, n))
		require.ErrorIs(t, middleware.Settle(r, n), exact.ErrNoRefund)
		require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
	}
}

// tokenOf shows the token of a response.
func tokenOf(resp *http.Response) option { return showing(resp.Header.Get(middleware.TokenHeader)) }

// exhaust uses up the shared quota of the policy contact.
func exhaust(t testing.TB, h http.Handler, options ...option) {
	t.Helper()
	require.Equal(t, 5, admitted(h, 5, options...))
}

// exhaustIn uses up what a mode gives without work for as long as there is some.
func exhaustIn(t testing.TB, mode middleware.Mode, h http.Handler, options ...option) {
	t.Helper()
	if mode == middleware.WhenExhausted {
		exhaust(t, h, options...)
	}
}

// codesIn returns the codes of the lines of a log, in turn.
func codesIn(lines []string) (codes []string) {
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, " code=")
		code, _, _ := strings.Cut(rest, " ")
		codes = append(codes, code)
	}
	return codes
}

// noted are the counts that are not zero.
func noted(counts map[string]uint64) map[string]uint64 {
	maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
	return counts
}

// boolToInt is 1 for true.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// spendShared uses up what the identity has without work and without waiting.
func spendShared(t testing.TB, h http.Handler, mode middleware.Mode, options ...option) {
	t.Helper()
	if mode == middleware.WhenExhausted {
		require.Equal(t, 5*laneQuota, admitted(h, 5*laneQuota+1, options...))
	}
}

// ticketOf returns the ticket of a cookie's value, without the tally.
func ticketOf(value string) string {
	ticket, _, _ := strings.Cut(value, "~")
	return ticket
}
