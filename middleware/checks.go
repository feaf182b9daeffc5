// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/seen"
)

// A finding is one kind of trouble that the log tells of.
type finding uint8

const (
	// At New and Reconfigure.
	configured finding = iota
	bounds
	secretWeak
	limitIdle
	failuresFree
	hourUnlimited

	// Who is asking.
	identityUnknown
	identityAway
	tierUnknown
	limitsFailed
	proxyUntrusted
	proxySuspected
	proxySilent
	proxyForgetful
	everybodyOne

	// What is carried.
	cookieDropped
	cookieInsecure
	fieldsLost
	writerBypassed

	// How the policy is mounted.
	policyMadeTwice
	policyTwice
	endpointsUnmounted
	scriptsMissing
	endpointsMisplaced
	endpointsIdle
	newcomersOnGet
	formUnsolvable
	hostChanged
	costAboveQuota
	exactOutside
	costNegative

	// What instances disagree about.
	secretUnknown
	clockDiffers

	// How it goes.
	clockJumped
	memoryFull
	salesFull
	priceHigh
	challengeFailed
	counterFailed
	counterSilent
	counterBack
	counterRefuses
	counterFull

	numFindings
)

const (
	trustProxy  = "trust it with ForwardedFor or AddressFromHeader"
	moreClients = "see that no client makes up identities; raise Config.MaxClients"
)

// diagnostics are what the log says of each. The codes are the headings of docs/checks.md, and stable:
// alerts are made of them. The call that names a finding has the other fields of its line: none is an address,
// a key, or anything that a client sent.
var diagnostics = [numFindings]struct{ code, message, remedy string }{
	configured: {"configured", "configured", "see that it is what you meant"},
	bounds:     {"bounds", "what clients get at most", "see that it is what you meant; without Peers, set Config.Instances to how many you run"},
	secretWeak: {"secret-weak", "a secret can be guessed: it has few different bytes, repeats itself, or holds a word of placeholders", "make another, as by openssl rand -base64 32"},
	limitIdle:  {"limit-idle", "a limit can never refuse, because another always refuses first", "lower its Quota, or take it away"},

	failuresFree: {"failures-free", "a status of failures is in ByOutcome.Free: requests that fail so are not counted", "put the statuses of success there"},

	hourUnlimited: {"hour-unlimited", "tallies are sold, and no limit counts for longer than minutes: a tally is worth its quota again and again while it lives",
		"add a limit of an hour"},

	identityUnknown: {"identity-unknown", "cannot tell who is asking; refused", "mend what because names; to refuse a client, have the identity function return a *middleware.Denial, of 401 or 403"},
	identityAway:    {"identity-unavailable", "cannot tell now who is asking; refused", "mend what the identity function asks"},
	tierUnknown:     {"tier-unknown", "identity has an unknown tier; the limits of Config.Limits apply", "add it to Config.Tiers, or mend the identity function"},
	limitsFailed:    {"limits-failed", "LimitsFor has no answer; the limits that it gave last apply, or the limits of the tier", "mend the function, or what it asks"},
	proxyUntrusted:  {"proxy-untrusted", "the client is a private address that names another, as proxies do: all of its clients share one quota", trustProxy},
	proxySuspected: {"proxy-suspected", "one client names many others, as proxies do: all of its clients share one quota",
		"if it is a proxy of yours, " + trustProxy + "; if not, leave it: a client can write this field"},
	proxySilent:    {"proxy-silent", "", "have the proxy set the field; name no clients in trusted"}, // a proxyWarning has its own words
	proxyForgetful: {"proxy-forgetful", "", "have the proxy set the field"},
	everybodyOne: {"everybody-one", "all requests come from one private address, though from many programs: they share one quota",
		"have the proxy name its clients, and " + trustProxy},

	cookieDropped:  {"cookie-dropped", "a page on plain HTTP: browsers drop the cookie, which is Secure", "serve the site on TLS, or, while you develop, set Config.Advanced.InsecureCookie, without EmbeddedCookie"},
	cookieInsecure: {"cookie-insecure", "the cookie is sent without Secure and without __Host-, and the site is on TLS", "do not set Config.Advanced.InsecureCookie"},
	fieldsLost: {"fields-lost", "a field of the response was taken away or replaced outside of the limiter",
		"let it pass; to send fewer fields, set Config.Quiet or Config.Fields"},
	writerBypassed: {"writer-bypassed", "the handler has not written to its ResponseWriter: fields and token may be missing",
		"have the adapter send Header, Write and WriteHeader to that one"},

	policyMadeTwice: {"policy-made-twice", "another Middleware of this policy is in use here: without an exact counter each counts for itself, and a client gets the limit of both",
		"make one, and wrap all handlers by it; or give the other one another Config.Policy"},
	policyTwice:        {"policy-twice", "a request has passed this policy twice, and is charged twice", "mount it once, or give the other one another Config.Policy"},
	endpointsUnmounted: {"endpoints-unmounted", "a challenge names the URLs below Challenge.Path: Endpoints was never called, and Handler was not asked for them", "mount Middleware.Endpoints there"},
	endpointsMisplaced: {"endpoints-misplaced", "Endpoints was asked for a path that is neither below Challenge.Path nor below an end of it", "mount it where browsers find Challenge.Path"},
	endpointsIdle:      {"endpoints-idle", "Endpoints is mounted, and the policy has no Challenge.Path", "set Challenge.Path to where it is mounted, or take it away"},
	scriptsMissing: {"page-scripts-missing", "pages that need a script went to browsers, and none has asked for it",
		"mount Middleware.Endpoints where browsers find Challenge.Path, the prefix that a proxy takes away included; let no proxy add a Content-Security-Policy"},
	newcomersOnGet: {"newcomers-on-get", "a page is refused, and its visitor cannot do the work", "limit the POST of its form alone; or set Challenge.Path, mount Middleware.Endpoints there, and let TokenTransport send cookies"},
	formUnsolvable: {"form-unsolvable", "a form is refused, and its visitor cannot do the work", "set Challenge.Path, mount Middleware.Endpoints there, put the element into the form, and let TokenTransport send cookies"},
	hostChanged: {"host-changed", "a page names another host than its request has: no form is kept, and no page can buy",
		"have the proxy pass on the Host, as by proxy_set_header Host $http_host; if it is a page of another site, leave it"},
	costAboveQuota: {"cost-above-quota", "a cost is above what its client may ever use; refused with 403", "lower the cost, or raise the Quota or Burst"},
	exactOutside: {"exact-outside", "a policy inside of this one has refused a request, whose charge stays on the exact counter",
		"mount this policy inside of the other one"},
	costNegative: {"cost-negative", "Config.Cost returned a negative cost; refused", "mend the function: 0 peeks, and Refund gives back"},

	secretUnknown: {"secret-unknown", "clients of several networks show what another secret has signed", "give all instances the same Config.Secrets, also after a restart, and drop an old one after TokenLife only"},
	clockDiffers:  {"clock-differs", "an instance has signed what begins later than now: this clock is behind, or the other one is ahead", "have all instances keep their clocks by NTP"},

	clockJumped: {"clock-jumped", "the clock has stepped back: it was wrong before, or is now", "have it slewed, not stepped"},
	memoryFull:  {"memory-full", "memory saturated: clients that it does not know begin with the smallest counts of others, and may be refused early", moreClients},
	salesFull:   {"sales-full", "memory saturated: it has no room for what work buys, and nothing more is sold", moreClients},
	priceHigh: {"price-high", "newcomers of one address or network are asked for over 16777216 hashes, half a minute of a phone: many have bought there, or one has bought much",
		"if they are welcome, such as a school, raise Challenge.Crowd; if not, leave it: the price is what holds a buyer"},
	challengeFailed: {"challenge-failed", "cannot issue a challenge", "set the clock of this machine, or mend its random numbers"},
	counterFailed:   {"counter-failed", "exact counter failed a request", "one alone needs nothing; if more come, mend what error names; if calls are late, raise Exact.Deadline"},
	counterSilent:   {"counter-down", "exact counter does not answer; ", "mend the counter"}, // and what comes of it
	counterBack:     {"counter-back", "exact counter answers again", "do nothing: the outage is over"},
	counterRefuses:  {"counter-refuses", "exact counter answers, and most requests of most of ten seconds were refused as load", "contended: see who locks the database; busy: give it more capacity"},
	counterFull:     {"counter-full", "exact counter has no room, and refuses customers", "give it more room"},
}

// checksPage is where each code is explained.
const checksPage = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"

// checks tell the operator, by the log, what is amiss around a Middleware: at most one line a minute for
// each finding, so that an attack cannot fill the disk. They outlive its configurations: else each
// Reconfigure would tell all of it anew, and leave an outage without its end. They decide nothing.
type checks struct {
	second throttle // one request in each second is checked
	policy string
	log    atomic.Pointer[slog.Logger]
	wrote  [numFindings]throttle

	outage outage
	// newcomersOnGet, formUnsolvable and endpointsMisplaced were told. Once is enough, as each may be meant.
	onPage, onForm, misplaced atomic.Bool

	named atomic.Int64 // when a refusal has first named the endpoints, in Unix seconds

	scripts atomic.Bool  // a browser has asked for a script, or has run one
	pages   atomic.Int64 // that need scripts, before that

	namers        seen.Namers
	only          seen.Only
	strangers     seen.Clients // that show what another secret has signed
	strangerCheck throttle
}

// A throttle is due once in its number of seconds.
type throttle struct{ last atomic.Int64 }

// due reports whether it is, and when it was before, in Unix seconds. A clock that has stepped back by
// as much was wrong before; by less, requests overtake each other.
func (t *throttle) due(now time.Time, seconds int64) (last int64, due bool) {
	last, second := t.last.Load(), now.Unix()
	return last, (second >= last+seconds || second <= last-seconds) && t.last.CompareAndSwap(last, second)
}

// logTo has the lines written to log, nil: to the default of this moment.
func (c *checks) logTo(log *slog.Logger) {
	if log == nil {
		log = slog.Default()
	}
	c.log.Store(log)
}

// picks reports whether a request is checked: one a second. All others pay this one atomic load.
func (c *checks) picks(now time.Time) bool {
	last, due := c.second.due(now, 1)
	if due && last != 0 && now.Unix() <= last-60 {
		c.warn(now, clockJumped, "by", time.Duration(last-now.Unix())*time.Second)
	}
	return due
}

// warn writes the line of a finding, unless it was written within the last minute.
func (c *checks) warn(now time.Time, f finding, args ...any) {
	if c.mayWrite(now, f) {
		c.write(slog.LevelWarn, f, "", args...)
	}
}

func (c *checks) mayWrite(now time.Time, f finding) bool {
	_, due := c.wrote[f].due(now, 60)
	return due
}

// write writes the line of a finding, with more of its message.
func (c *checks) write(level slog.Level, f finding, more string, args ...any) {
	line := &diagnostics[f]
	args = append([]any{"policy", c.policy, "code", line.code}, args...)
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = span.Text(d)
		}
	}
	if line.remedy != "" {
		args = append(args, "remedy", line.remedy)
	}
	c.log.Load().Log(context.Background(), level, "tallystick: "+line.message+more, append(args, "page", checksPage+line.code)...)
}

// warnOfProxy tells which peer an identity function has believed.
func (c *checks) warnOfProxy(now time.Time, d *proxyWarning) {
	f := proxySilent
	if d.sometimes {
		f = proxyForgetful
	}
	if c.mayWrite(now, f) {
		c.write(slog.LevelWarn, f, d.message)
	}
}

// What instances disagree about. Each decides by itself, and sees of the others only what they have signed:
//
//   - By another secret. Any client can write a token or a challenge that looks like that, for one
//     client or for a /48. So clients of several networks have to show such ones. One of them a
//     second is noted.
//   - Under another clock. A window, or a challenge, that begins later than now and that a secret
//     of ours has signed cannot be made up: the first one is told of. An expired one says nothing,
//     as any client may keep it.

// clockAhead tells of a clock that was ahead of now, at least by this.
func (c *checks) clockAhead(now time.Time, by time.Duration) {
	if c.mayWrite(now, clockDiffers) { // nothing is allocated for each token of a fleet that is all wrong
		c.write(slog.LevelWarn, clockDiffers, "", "ahead", by.Truncate(time.Second))
	}
}

// namedBefore reports whether a refusal has named the endpoints ten seconds ago, or earlier: a browser that was
// refused by a policy around a whole site has asked it for a script by now.
func (c *checks) namedBefore(now time.Time) bool {
	second := now.Unix()
	return !c.named.CompareAndSwap(0, second) && second >= c.named.Load()+10
}

// otherSecret notes that a client shows what no secret of codec has signed.
func (c *checks) otherSecret(now time.Time, id *Identity, codec *token.Codec) {
	if _, due := c.strangerCheck.due(now, 1); due && c.strangers.Note(now, clientOf(id)) {
		c.warn(now, secretUnknown, "kids", strings.Join(codec.KeyIDs(), ","))
	}
}

// An outage holds what the log has said of the exact counter.
type outage struct {
	told atomic.Bool // that it does not answer

	mu    sync.Mutex // held while a line is written: the last one must be the true one
	began time.Time  // the one that was told of last
	quiet time.Time  // since when the counter answers; zero: it does not
}

// quietTime is how long a counter must have answered before the log says so. A counter that comes and goes
// would otherwise fill the log, or leave it with an all-clear as its last line.
const quietTime = 10 * time.Second

// counterDown tells of an outage once. One that follows an all-clear is always told: quietTime
// lies between them, so that they are at most six a minute.
func (c *checks) counterDown(now time.Time, consequence string, err error) {
	o := &c.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	o.quiet = time.Time{}
	if o.told.Swap(true) {
		return
	}
	args := []any{"error", err}
	if now.Sub(o.began).Abs() < time.Minute {
		args = append(args, "again", true)
	}
	o.began = now
	c.write(slog.LevelError, counterSilent, consequence, args...)
}

// counterAnswers ends an outage that was told of, when it was quiet for long enough: each alarm has
// its all-clear, and no other. That one node of a cluster answers does not end the outage of another.
func (c *checks) counterAnswers(now time.Time, guard *guardedcall.Guard) {
	o := &c.outage
	if !o.told.Load() || !guard.Well(now) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch quiet := now.Sub(o.quiet); {
	case o.quiet.IsZero() || quiet <= -quietTime: // or the clock was wrong
		o.quiet = now
	case quiet >= quietTime && o.told.Swap(false):
		c.write(slog.LevelInfo, counterBack, "")
	}
}

// counterRefuses tells of load that does not end, but of none that passes; and at once of a counter that
// has no room: an operator can give it more.
func (c *checks) counterRefuses(now time.Time, outcome guardedcall.Outcome, err error, guard *guardedcall.Guard) {
	switch outcome {
	case guardedcall.Answered:
		return
	case guardedcall.Full:
		c.warn(now, counterFull, "error", err)
		return
	}
	because, err, does := guard.Refuses(now)
	if !does {
		return
	}
	args := []any{"because", because.String()}
	if err != nil { // else there was no place to wait
		args = append(args, "error", err)
	}
	c.warn(now, counterRefuses, args...)
}

// longestCustomer is how many bytes of a customer's name are kept.
const longestCustomer = 64

// clientOf returns the part of id that counts as one client. On the Internet that is an IPv4 /16 or IPv6 /29, which one
// customer of a host may have at once (see loadOf). In networks of one's own, where no client has many addresses, it is
// an address.
func clientOf(id *Identity) seen.Client {
	if id.kind != kindAddress {
		return seen.Client{Name: strings.Clone(id.text[:min(int(id.named), longestCustomer)])} // one customer, whatever it asks for
	}
	addr := id.firstAddr()
	bits := 29
	switch {
	case near(addr):
		bits = addr.BitLen()
	case addr.Is4():
		bits = 16
	}
	network, _ := addr.Prefix(bits)
	return seen.Client{Network: network}
}

// near reports whether proxies of one's own have such an address, and clients from the Internet do
// not: private, loopback, link-local, or shared (RFC 6598).
func near(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || shared.Contains(addr)
}

// shared is the network between carriers and their customers, which platforms use for
// networks of their own.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// manyPages is how many pages without a script are no accident. Each would have asked for five files.
const manyPages = 8

// pageSent checks whether any of the browsers that a page with a script was sent to comes back for it. Programs that
// fetch pages in bulk never do, but do not call themselves browsers either; and nor does a page that is fetched ahead.
func (c *checks) pageSent(now time.Time, r *http.Request) {
	if c.scripts.Load() || len(r.Header["Sec-Fetch-Mode"]) == 0 || len(r.Header["Sec-Purpose"]) > 0 || r.Method == http.MethodHead {
		return
	}
	if c.pages.Add(1) >= manyPages {
		c.warn(now, scriptsMissing)
	}
}
