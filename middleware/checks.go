// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/seen"
)

// A finding is one kind of trouble that the log tells of.
type finding uint8

const (
	// At New and Reconfigure.
	configured finding = iota
	limitIdle
	hourUnlimited

	// Who is asking.
	identityUnknown
	identityAway
	tierUnknown
	limitsFailed
	portUnknown
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
	newcomersOnGet
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
	moreClients = "raise Config.MaxClients"
)

// findings are what the log says of each. The codes are the headings of docs/checks.md, and stable:
// alerts are made of them. The call that names a finding has the other fields of its line: none is an address,
// a key, or anything that a client sent.
var findings = [numFindings]struct{ code, message, remedy string }{
	configured: {"configured", "configured", ""},
	limitIdle:  {"limit-idle", "a limit can never refuse, because another always refuses first", "lower its Quota, or take it away"},

	hourUnlimited: {"hour-unlimited", "tallies are sold, and no limit counts for longer than minutes: a tally is worth its quota again and again while it lives",
		"add a limit of an hour"},

	identityUnknown: {"identity-unknown", "cannot tell who is asking; refused", ""},
	identityAway:    {"identity-unavailable", "cannot tell now who is asking; refused", ""},
	tierUnknown:     {"tier-unknown", "identity has an unknown tier; the limits of Config.Limits apply", ""},
	limitsFailed:    {"limits-failed", "LimitsFor has no answer; the limits that it gave last apply, or those of the tier", ""},
	portUnknown:     {"port-unknown", "RemoteAddr has no port: such clients buy as without Config.Advanced.PortBlocks", ""},
	proxyUntrusted:  {"proxy-untrusted", "the client is a private address that names another, as proxies do: all of its clients share one quota", trustProxy},
	proxySuspected: {"proxy-suspected", "one client names many others, as proxies do: all of its clients share one quota",
		"if it is a proxy of yours, " + trustProxy + "; if not, leave it: a client can write this field"},
	proxySilent:    {"proxy-silent", "", ""}, // a doubt has its own words
	proxyForgetful: {"proxy-forgetful", "", ""},
	everybodyOne: {"everybody-one", "every request comes from one private address, though from many programs: all of them share one quota",
		"have the proxy name its clients, and " + trustProxy},

	cookieDropped:  {"cookie-dropped", "a page on plain HTTP: browsers drop the cookie, which is Secure", "serve the site on TLS, or set Config.Advanced.InsecureCookie while you develop"},
	cookieInsecure: {"cookie-insecure", "the cookie is sent without Secure and without __Host-, and the site is on TLS", "do not set Config.Advanced.InsecureCookie"},
	fieldsLost: {"fields-lost", "something outside of the limiter has taken away or replaced a field of the response",
		"let it pass; to send fewer fields, set Config.Quiet or Config.Fields"},
	writerBypassed: {"writer-bypassed", "the handler has not written to the ResponseWriter that it was given: the fields and the token may be missing",
		"have the adapter send Header, Write and WriteHeader to that one"},

	policyMadeTwice: {"policy-made-twice", "another Middleware of this policy is in use in this process: without an exact counter each counts for itself, and a client gets the limit of both",
		"make one, and wrap all handlers by it; or give the other one another Config.Policy"},
	policyTwice:        {"policy-twice", "a request has passed this policy twice, and is charged twice", "mount it once, or give the other one another Config.Policy"},
	endpointsUnmounted: {"endpoints-unmounted", "a challenge names the URLs below Challenge.Path, where nothing answers", "mount Middleware.Endpoints there"},
	newcomersOnGet:     {"newcomers-on-get", "a page is refused, and its visitor cannot do the work", "limit the POST of its form alone, or set Challenge.Path and mount Middleware.Endpoints there"},
	costNegative:       {"cost-negative", "Config.Cost returned a negative cost; refused", ""},

	secretUnknown: {"secret-unknown", "clients of several networks show what another secret has signed", "give all instances the same Config.Secrets, and drop an old one after TokenLife only"},
	clockDiffers:  {"clock-differs", "an instance has signed what begins later than now: the clock of this one is behind, or that of the other is ahead", "have all instances keep their clocks by NTP"},

	clockJumped: {"clock-jumped", "the clock has stepped back: it was wrong before, or is now", ""},
	memoryFull:  {"memory-full", "memory saturated: clients that it does not know begin with the smallest counts of others, and may be refused early", moreClients},
	salesFull:   {"sales-full", "memory saturated: it has no room for what is paid for with work, and nothing more is sold", moreClients},
	priceHigh: {"price-high", "newcomers of one address or network are asked for over 16777216 hashes, half a minute of a phone: many have bought there, or one has bought much",
		"if they are welcome, such as a school, raise Challenge.Crowd; if not, leave it: the price is what holds a buyer"},
	challengeFailed: {"challenge-failed", "cannot issue a challenge", ""},
	counterFailed:   {"counter-failed", "exact counter failed a request", ""},
	counterSilent:   {"counter-down", "exact counter does not answer; ", ""}, // and what comes of it
	counterBack:     {"counter-back", "exact counter answers again", ""},
	counterRefuses:  {"counter-refuses", "exact counter answers, and most requests of most of ten seconds were refused as load", ""},
	counterFull:     {"counter-full", "exact counter has no room, and refuses customers", ""},
}

// checksPage is where each code is explained.
const checksPage = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"

// checks tell the operator, by the log, what is amiss around a Middleware: at most one line a minute for
// each finding, so that an attack cannot fill the disk. They outlive its configurations: else each
// Reconfigure would tell all of it anew, and leave an outage without its end. They decide nothing.
type checks struct {
	second throttle // of which one request is checked
	policy string
	log    atomic.Pointer[slog.Logger]
	wrote  [numFindings]throttle

	down   atomic.Bool // the log says that the exact counter does not answer
	onPage atomic.Bool // newcomersOnGet was told. Once is enough, as a gate may be meant

	namers        seen.Namers
	only          seen.Only
	strangers     seen.Clients // who show what another secret has signed
	strangerCheck throttle
}

// A throttle is due once in so many seconds.
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
	line := &findings[f]
	args = append([]any{"policy", c.policy, "code", line.code}, args...)
	if line.remedy != "" {
		args = append(args, "remedy", line.remedy)
	}
	c.log.Load().Log(context.Background(), level, "tallystick: "+line.message+more, append(args, "page", checksPage+line.code)...)
}

// doubts tells of whom an identity function has believed.
func (c *checks) doubts(now time.Time, d *doubt) {
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
//   - By another secret. Anybody can write a token or a challenge that looks like that, for one client or for a
//     /48. So clients of several networks have to show such ones. One of them a second is noted.
//   - Under another clock. A window, or a challenge, that begins later than now and that a secret of ours has
//     signed cannot be made up: the first one is told of. What has expired says nothing, as anybody may keep it.

// clockAhead tells of a clock that was ahead of now by so much, at least.
func (c *checks) clockAhead(now time.Time, by time.Duration) {
	if c.mayWrite(now, clockDiffers) { // nothing is allocated for each token of a fleet that is all wrong
		c.write(slog.LevelWarn, clockDiffers, "", "ahead", by.Truncate(time.Second))
	}
}

// otherSecret notes that a client shows what no secret of codec has signed.
func (c *checks) otherSecret(now time.Time, id *Identity, codec *token.Codec) {
	if _, due := c.strangerCheck.due(now, 1); due && c.strangers.Note(now, clientOf(id)) {
		c.warn(now, secretUnknown, "kids", strings.Join(codec.KeyIDs(), ","))
	}
}

// counterDown tells of an outage once, and not more than once a minute. One that comes
// too soon after another is told of by a later probe.
func (c *checks) counterDown(now time.Time, consequence string, err error) {
	if !c.down.Load() && c.mayWrite(now, counterSilent) {
		c.down.Store(true)
		c.write(slog.LevelError, counterSilent, consequence, "error", err)
	}
}

// counterAnswers ends an outage that was told of: each alarm has its all-clear, and no
// other. That one node of a cluster answers does not end the outage of another.
func (c *checks) counterAnswers(now time.Time, guard *guardedcall.Guard) {
	if c.down.Load() && guard.Well(now) && c.down.Swap(false) {
		c.write(slog.LevelInfo, counterBack, "")
	}
}

// counterRefuses tells of load that does not end, but of none that passes; and at once of a counter that
// has no room: somebody can give it more.
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

// clientOf returns what is counted as one client of id. Of the Internet that is what one customer of a
// host may have at once, see surgeNetwork; of networks of one's own, where nobody has many, an address.
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

// near reports whether an address is one that proxies of one's own have, and clients
// from the Internet do not: private, loopback, link-local, or shared (RFC 6598).
func near(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || shared.Contains(addr)
}

// shared is the network between carriers and their customers, which platforms use for
// networks of their own.
var shared = netip.MustParsePrefix("100.64.0.0/10")
