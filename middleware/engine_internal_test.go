// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// Each rule refuses the first value behind its bound, and not the last before it. Here,
// because New would make the memory that a permitted number of tallies wants.
func TestBoundsOfConfig(t *testing.T) {
	for name, test := range map[string]struct {
		set    func(*Config)
		broken []string
	}{
		"nothing set":                {func(*Config) {}, nil},
		"the last carriage":          {func(c *Config) { c.TokenTransport = MemoryOnly }, nil},
		"one more carriage":          {func(c *Config) { c.TokenTransport = MemoryOnly + 1 }, []string{"TokenTransport"}},
		"the last of Fields":         {func(c *Config) { c.Fields = XRateLimitInSeconds }, nil},
		"one more of Fields":         {func(c *Config) { c.Fields = XRateLimitInSeconds << 1 }, []string{"Fields"}},
		"one tally":                  {func(c *Config) { c.MaxClients = 1 }, nil},
		"fewer than none":            {func(c *Config) { c.MaxClients = -1 }, []string{"MaxClients"}},
		"most tallies":               {func(c *Config) { c.MaxClients = 1 << 24 }, nil},
		"one tally more":             {func(c *Config) { c.MaxClients = 1<<24 + 1 }, []string{"MaxClients"}},
		"smallest networks":          {func(c *Config) { c.Net56Factor, c.Net48Factor = 1, 1 }, nil},
		"a negative /56":             {func(c *Config) { c.Net56Factor = -1 }, []string{"Net56Factor"}},
		"a negative /48":             {func(c *Config) { c.Net56Factor, c.Net48Factor = 1, -1 }, []string{"Net48Factor"}},
		"both negative, in order":    {func(c *Config) { c.Net56Factor, c.Net48Factor = -2, -1 }, []string{"Net56Factor", "Net48Factor"}},
		"largest networks":           {func(c *Config) { c.Net56Factor, c.Net48Factor = 1<<31-1, 1<<31-1 }, nil},
		"a /56 too large":            {func(c *Config) { c.Net56Factor = 1 << 31 }, []string{"Net56Factor", "Net48Factor"}},
		"a /48 too large":            {func(c *Config) { c.Net48Factor = 1 << 31 }, []string{"Net48Factor"}},
		"a large /56 alone":          {func(c *Config) { c.Net56Factor = 100 }, nil},
		"a /48 as its /56":           {func(c *Config) { c.Net56Factor, c.Net48Factor = 100, 100 }, nil},
		"a /48 smaller than its /56": {func(c *Config) { c.Net56Factor, c.Net48Factor = 100, 99 }, []string{"Net48Factor"}},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			test.set(&cfg)
			cfg = withDefaults(cfg)
			var broken []string
			for problem := range storeless.ConfigErrors(validate(&cfg)) {
				broken = append(broken, problem.Field)
			}
			require.Equal(t, test.broken, broken)
		})
	}
}

func TestIdleLimits(t *testing.T) {
	sliding := func(q int64, w time.Duration) limiter.Limit { return limiter.Limit{Quota: q, Window: w} }
	fixed := func(q int64, w time.Duration) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.FixedWindow, Quota: q, Window: w}
	}
	bucket := func(q int64, w time.Duration, b int64) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.TokenBucket, Quota: q, Window: w, Burst: b}
	}
	leaky := func(q int64, w time.Duration) limiter.Limit {
		return limiter.Limit{Algorithm: limiter.LeakyBucket, Quota: q, Window: w}
	}
	for name, test := range map[string]struct {
		l, j limiter.Limit
		want bool
	}{
		"the same window, more":             {sliding(10, time.Minute), sliding(1000, time.Minute), true},
		"the same window, less":             {sliding(1000, time.Minute), sliding(10, time.Minute), false},
		"an hour of more than its minutes":  {sliding(5, time.Minute), sliding(1000, time.Hour), true},
		"an hour of just its minutes":       {sliding(10, time.Minute), sliding(600, time.Hour), false},
		"the same, in fixed windows":        {fixed(10, time.Minute), fixed(600, time.Hour), true},
		"a little less than its minutes":    {fixed(10, time.Minute), fixed(599, time.Hour), false},
		"a day of less":                     {sliding(5, time.Minute), sliding(50, 24*time.Hour), false},
		"a shorter window, as much":         {sliding(50, time.Hour), sliding(50, time.Minute), true},
		"a shorter window, less":            {sliding(50, time.Hour), sliding(49, time.Minute), false},
		"slides over the end of a fixed":    {fixed(10, time.Minute), sliding(19, time.Minute), false},
		"slides, twice as much":             {fixed(10, time.Minute), sliding(20, time.Minute), true},
		"windows that do not meet":          {sliding(10, 7*time.Second), sliding(20, 10*time.Second), false},
		"windows that do not meet, enough":  {sliding(10, 7*time.Second), sliding(40, 10*time.Second), true},
		"a bucket before a window":          {bucket(60, time.Minute, 10), sliding(70, time.Minute), true},
		"a bucket before a smaller window":  {bucket(60, time.Minute, 10), sliding(69, time.Minute), false},
		"a meter before a window":           {leaky(60, time.Minute), sliding(62, time.Minute), true},
		"a meter before a smaller window":   {leaky(60, time.Minute), sliding(60, time.Minute), false},
		"a bucket in a larger and faster":   {bucket(60, time.Minute, 10), bucket(61, time.Minute, 10), true},
		"a bucket just as fast":             {bucket(60, time.Minute, 10), bucket(3600, time.Hour, 10), true},
		"a bucket in a smaller":             {bucket(60, time.Minute, 10), bucket(61, time.Minute, 9), false},
		"a bucket in a slower":              {bucket(60, time.Minute, 10), bucket(59, time.Minute, 100), false},
		"a window before a bucket":          {sliding(10, time.Minute), bucket(11, time.Minute, 20), true},
		"a window before a small bucket":    {sliding(10, time.Minute), bucket(11, time.Minute, 19), false},
		"a log that holds less":             {sliding(10, time.Minute), limiter.Limit{Algorithm: limiter.SlidingLog, Quota: 20, Window: time.Minute}, false},
		"a log that holds what two windows": {sliding(10, time.Minute), limiter.Limit{Algorithm: limiter.SlidingLog, Quota: 30, Window: time.Minute}, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, idle(test.j, test.l)) })
	}
}

// What is told is true: whatever comes, a limit that is called idle refuses nothing that the other would admit.
// Requests come in the worst ways: as many as pass around the ends of windows, and at random.
func TestIdleLimitsNeverRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	windows := []time.Duration{1, 2, 3, 6, 7, 10, 12}
	pick := func(name string) limiter.Limit {
		l := limiter.Limit{Name: name, Algorithm: limiter.Algorithm(r.IntN(4)), Quota: 1 + r.Int64N(20), Window: windows[r.IntN(len(windows))] * time.Second}
		if r.IntN(2) == 0 {
			l.Quota *= 6
		}
		if l.Algorithm == limiter.TokenBucket {
			l.Burst = 1 + r.Int64N(40)
		}
		return l
	}
	found := map[[2]limiter.Algorithm]int{}
	for range 1500 {
		j, l := pick("idle"), pick("first")
		both := kit.Must(limiter.Compile("both", []limiter.Limit{j, l}))(t)
		if !idle(both.Limit(0), both.Limit(1)) {
			continue
		}
		found[[2]limiter.Algorithm{j.Algorithm, l.Algorithm}]++
		now, tally := time.Unix(1_000_000_000, 0), limiter.Tally{}
		for range 250 {
			switch r.IntN(4) {
			case 0: // just before the next whole second, where windows end
				now = now.Truncate(time.Second).Add(time.Second - time.Microsecond)
			case 1:
				now = now.Truncate(time.Second).Add(time.Second)
			case 2:
				now = now.Add(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			cost := 1 + r.Int64N(4)*r.Int64N(5)
			for range 3 {
				var v limiter.Verdict
				tally, v = both.Step(now, tally, cost)
				require.False(t, v.Limits[0].Blocked && !v.Limits[1].Blocked, "%+v refuses before %+v", j, l)
			}
		}
	}
	require.Len(t, found, 14, "all pairs of algorithms are tried, but a meter, which no window fits in: %v", found)
}

// TestStampsFit: a token that fits has room to tell its client of a refusal, for as long as a
// counter can refuse: also where short windows are beside a bucket that owes for a year, and the
// tokens of shared tallies are longer than the tokens of bought ones.
func TestStampsFit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UnixMicro()
	longest := 0
	for _, quota := range []int64{9, 99, 999} {
		for n := range 32 {
			name := strings.Repeat("a", n+1)
			bucket := storeless.Limit{Name: "b", Algorithm: storeless.TokenBucket, Quota: 1, Window: 640 * time.Second, Burst: 49_000}
			limits := []storeless.Limit{bucket}
			for i := 0; len(limits) < storeless.MaxLimits-1; i++ {
				l := storeless.Limit{Name: fmt.Sprint("w", i), Quota: quota, Window: time.Second}
				p := kit.Must(limiter.Compile(name, []storeless.Limit{l}))(t)
				if p.ID(0) >= 10_000_000 { // an id with all of its digits
					limits = append(limits, l)
				}
			}
			p := kit.Must(limiter.Compile(name, limits))(t)
			marked := kit.Must(limiter.Compile(name, withStamp(p)))(t)
			codec, err := token.New([][]byte{bytes.Repeat([]byte("ab"), 16)}, marked)
			if err != nil {
				continue
			}
			const year = 49_000 * 640 // seconds
			tally := limiter.Tally{{At: now + (2*year+640)*1_000_000, Cur: year + 640}}
			for i := 1; i < p.Len(); i++ {
				tally[i] = limiter.State{At: now / 1_000_000, Cur: uint32(quota), Prev: uint32(quota)}
			}
			tally[p.Len()] = stampOf(&guardedcall.Refusal{Cost: 1, Said: now, Until: now + 2*year*1_000_000}, &guardedcall.Key{255, 255, 255})
			holder := codec.Holder([]byte("somebody"))
			tok := holder.Append(nil, &tally)
			require.NotEmpty(t, tok, "%d a second, a name of %d", quota, n+1)
			longest = max(longest, len(tok))
		}
	}
	require.Greater(t, longest, token.MaxLen-8)
}

// The runtime allocates in sizes: the one after 704 bytes is 768, and 8 of them are its own. With one word too many
// each request costs 64 bytes more, and the time to clear and collect them. The sizes hold for 64-bit machines; on
// others all is smaller.
func TestWhatARequestKeepsFitsItsAllocation(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector allocates on its own")
	}
	for _, test := range []struct {
		class uint64
		outer *decisionContext
	}{{704, nil}, {896, new(decisionContext)}} {
		const times = 10_000
		least := ^uint64(0)
		for range 3 { // what servers of other tests allocate as they end is not the request's
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				kept, _ = newContext(t.Context(), test.outer)
			}
			runtime.ReadMemStats(&after)
			least = min(least, (after.TotalAlloc-before.TotalAlloc)/times)
		}
		require.LessOrEqual(t, least, test.class,
			"what every request allocates, alone or inside of another middleware, has grown beyond the allocator's class: the next is larger by 64 bytes or more, for each request.\n"+
				"A field that few decisions have goes where the rare ones are, which are allocated only then; integers that are small\n"+
				"can be int32, or share a word; what is the same for all requests has no place here. If every request needs it: raise this, and show \"make bench\" before and after.")
	}
}

var kept *decisionContext // on the heap, as of a request

// What a large tier is owed a visit in a small one forgives nowhere: not in the
// tallies, nor the networks', the waiting room's or the fallback's.
func TestEveryTierKnowsTheLargestBucket(t *testing.T) {
	secret := sha256.Sum256([]byte("a"))
	bucket := func(burst int64) []Limit {
		return []Limit{{Algorithm: TokenBucket, Quota: 60, Window: time.Minute, Burst: burst}}
	}
	plain := Config{
		Policy:  "contact",
		Limits:  bucket(5),
		Tiers:   map[string][]Limit{"pro": bucket(5000), "trial": bucket(1)},
		Secrets: [][]byte{secret[:]},
	}
	room, counted := plain, plain
	room.Challenge = new(Challenge)
	counted.Exact = &Exact{Counter: memory.New(0, nil), Outage: FailOpen}
	counted.Instances = 2
	for name, row := range map[string]struct {
		cfg   Config
		roles map[string]func(*tier) *limiter.Policy
	}{
		"no challenge": {plain, map[string]func(*tier) *limiter.Policy{
			"policy": func(t *tier) *limiter.Policy { return t.policy },
			"/56":    func(t *tier) *limiter.Policy { return t.net56 },
			"/48":    func(t *tier) *limiter.Policy { return t.net48 },
		}},
		"waiting room": {room, map[string]func(*tier) *limiter.Policy{
			"policy":      func(t *tier) *limiter.Policy { return t.policy },
			"pass":        func(t *tier) *limiter.Policy { return t.pass.policy },
			"room":        func(t *tier) *limiter.Policy { return t.room.policy },
			"/56 of room": func(t *tier) *limiter.Policy { return t.room.net56 },
			"/48 of room": func(t *tier) *limiter.Policy { return t.room.net48 },
		}},
		"exact": {counted, map[string]func(*tier) *limiter.Policy{
			"fallback": func(t *tier) *limiter.Policy { return t.fallback },
			"/56":      func(t *tier) *limiter.Policy { return t.net56 },
			"/48":      func(t *tier) *limiter.Policy { return t.net48 },
		}},
	} {
		e := kit.Must(compile(row.cfg))(t)
		now := time.Unix(1_800_000_000, 0)
		for role, policy := range row.roles {
			for _, small := range []*tier{&e.base, e.tiers["trial"]} {
				large := policy(e.tiers["pro"])
				owed, v := large.Step(now, limiter.Tally{}, large.Capacity())
				require.True(t, v.Admitted)
				held, v := policy(small).Step(now, owed, 1)
				require.Equal(t, owed, held, "%s: %s", name, role)
				require.Greater(t, v.Wait, 10*time.Minute, "%s: %s", name, role)
			}
		}
	}
}

// TestDottedAgreesWithNetip: what we take, package netip takes for the same address; what
// net/http writes of an IPv4 connection, we take.
func TestDottedAgreesWithNetip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	agree := func(s string) bool {
		addr, ok := dotted(s)
		if ok {
			want, err := netip.ParseAddrPort(s)
			require.NoError(t, err, "%q", s)
			four := want.Addr().As4()
			require.Equal(t, binary.BigEndian.Uint32(four[:]), addr, "%q", s)
		}
		return ok
	}
	for range 20_000 {
		want := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32() >> r.IntN(8)), byte(r.Uint32()), byte(r.Uint32())}), uint16(r.Uint32()))
		s := want.String()
		require.True(t, agree(s), "%q", s)
		// One byte of it is another, is missing, or is there once more.
		i, c := r.IntN(len(s)), "0123456789.:[]%-+ \x00\xff"[r.IntN(20)]
		agree(s[:i] + string(c) + s[i+1:])
		agree(s[:i] + s[i+1:])
		agree(s[:i] + s[i:i+1] + s[i:])
	}
	for _, s := range []string{
		"", ".", ":", "1.2.3.4", "1.2.3.4:", "1.2.3:80", "1.2.3.4.5:80", "01.2.3.4:80", "1.2.3.00:80", "256.2.3.4:80", "1.2.3.4:65536",
		"1.2.3.4:99999", "1.2.3.4:080808", "1.2.3.4:-1", "1.2.3.4:8o", "1:2.3.4:80", "1.2.3.4:80:80", "[::1]:80", "::ffff:1.2.3.4", "1.2..4:80",
		"1.2.3.4 :80", " 1.2.3.4:80", "4294967297.2.3.4:80",
	} {
		require.False(t, agree(s), "%q", s)
	}
	for _, port := range []int{0, 1, 80, 9999, 10000, 65535} {
		require.True(t, agree(fmt.Sprintf("203.0.113.255:%d", port)))
	}
}

// FuzzForwardedFor: whatever the two forwarding headers say, the client is told by one canonical address, which is
// none of a trusted network unless it is the peer itself, and which nothing that a client writes can change.
func FuzzForwardedFor(f *testing.F) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:feed::/48")}
	forwardedFor := kit.Must(ForwardedFor(trusted...))(f)
	forwarded := kit.Must(AddressFromHeader("Forwarded", trusted...))(f)
	f.Fuzz(func(t *testing.T, remote, first, second string, rfc7239 bool) {
		identify, header := forwardedFor, "X-Forwarded-For"
		if rfc7239 {
			identify, header = forwarded, "Forwarded"
		}
		ask := func(lines ...string) (Identity, error) {
			return identify(&http.Request{RemoteAddr: remote, Header: http.Header{header: lines}})
		}
		id, err := ask(first, second)
		if err != nil {
			require.True(t, id.IsZero(), "an error, and an identity")
			return
		}
		require.Equal(t, kindAddress, id.kind)
		peer, ok := peer(&http.Request{RemoteAddr: remote})
		require.True(t, ok, "an identity, by way of none")
		addr := id.Addr()
		require.Equal(t, Address(addr).Addr(), addr, "canonical")
		if id.firstAddr() == firstAddrOf(peer) {
			return
		}
		require.True(t, slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(peer.Unmap().WithZone("")) }),
			"an untrusted peer is believed")
		for _, p := range trusted {
			require.False(t, p.Contains(addr), "a proxy of ours is the client")
		}

		plain := addr.String()
		if rfc7239 && addr.Is6() {
			plain = `for="[` + plain + `]"`
		} else if rfc7239 {
			plain = "for=" + plain
		}
		again := kit.Must(ask(plain))(t)
		require.Equal(t, id, again, "idempotent")
		// What a client writes lands to the left of what the proxy writes.
		again = kit.Must(ask(first, second+","+first, "198.51.100.99", plain))(t)
		require.Equal(t, id, again, "hearsay is believed")
	})
}

// The engine is embedded in a call, and so are others elsewhere: a name of both would mean one
// thing in a step, and another where code reads the engine. The compiler does not tell.
func TestNothingHidesANameOfWhatItEmbeds(t *testing.T) {
	parse := func(name string, text any) *ast.File {
		file := kit.Must(parser.ParseFile(gotoken.NewFileSet(), name, text, parser.SkipObjectResolution))(t)
		return file
	}
	require.ElementsMatch(t, []string{"call.price", "call.note", "call.name"}, hiddenNames(parse("", `package p
		type engine struct { name string; *deep }
		type deep struct { price int }
		func (e *engine) note() {}
		type call struct { *engine; price int; other }
		type other struct { name string }
		func (q call) note() {}`)))

	names := kit.Must(filepath.Glob("[a-z]*.go"))(t)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, parse(name, nil))
		}
	}
	require.Greater(t, len(files), 40)
	require.Empty(t, hiddenNames(files...))
}

// hiddenNames returns the names of fields and methods that a struct has twice: itself, and in a struct of the same package
// that it embeds, or in two of those.
func hiddenNames(files ...*ast.File) (hidden []string) {
	own, embeds := map[string][]string{}, map[string][]string{} // by type
	nameOf := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if name, ok := e.(*ast.Ident); ok {
			return name.Name
		}
		return "" // of another package
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					of := nameOf(n.Recv.List[0].Type)
					own[of] = append(own[of], n.Name.Name)
				}
				return false
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					return false
				}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						if name.Name != "_" {
							own[n.Name.Name] = append(own[n.Name.Name], name.Name)
						}
					}
					if len(field.Names) == 0 {
						embeds[n.Name.Name] = append(embeds[n.Name.Name], nameOf(field.Type))
					}
				}
			}
			return true
		})
	}
	var namesIn func(string) []string
	namesIn = func(of string) []string {
		names := own[of]
		for _, inner := range embeds[of] {
			names = append(names[:len(names):len(names)], namesIn(inner)...)
		}
		return names
	}
	for of := range embeds {
		seen := map[string]bool{}
		for _, name := range namesIn(of) {
			if seen[name] {
				hidden = append(hidden, of+"."+name)
			}
			seen[name] = true
		}
	}
	return hidden
}

// selling is a limiter with a challenge, and nothing else that matters.
func selling(t *testing.T, challenge *Challenge) *Middleware {
	t.Helper()
	m := kit.Must(New(Config{
		Policy:    "contact",
		Limits:    []Limit{{Quota: 9, Window: time.Minute}},
		Secrets:   [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
		Challenge: challenge,
	}))(t)
	return m
}

// A token of an own tally that lives longer than any that is sold was signed by a thief of the key.
// The thief gets no more than the rest of a tally's life.
func TestOwnTokensThatLiveTooLongAreNotBelieved(t *testing.T) {
	m := selling(t, &Challenge{})
	e := m.engine.Load()
	now := time.Unix(1_800_000_000, 0)
	q := e.about(t.Context(), now, Address(netip.MustParseAddr("203.0.113.1")))
	life := e.challenge.passLife
	for _, test := range []struct {
		life time.Duration
		want tokenFault
	}{{life, tokenSound}, {life + time.Minute, tokenSound}, {life + time.Minute + time.Second, tokenLate}, {100 * 365 * 24 * time.Hour, tokenLate}} {
		require.Equal(t, test.want, q.faultOfOwn(&token.Own{ID: [6]byte{1}, Expires: now.Add(test.life).Unix()}), test.life)
	}
}

// Where nothing is sold an own token was signed by a thief of the key, however short it lives.
func TestOwnTokensWhereNothingIsSold(t *testing.T) {
	for name, challenge := range map[string]*Challenge{"no challenge": nil, "proofs buy requests": {Mode: EveryRequest}} {
		t.Run(name, func(t *testing.T) {
			m := selling(t, challenge)
			now := time.Unix(1_800_000_000, 0)
			q := m.engine.Load().about(t.Context(), now, Address(netip.MustParseAddr("203.0.113.1")))
			require.Equal(t, tokenHolder, q.faultOfOwn(&token.Own{ID: [6]byte{1}, Expires: now.Unix() + 1}))
		})
	}
}

// A client of several policies shows the tokens of all to each: the tokens of the others do not keep a policy from
// knowing its own. Behind a broken token nothing is known by sight: a client that sends garbage costs no more than the
// read.
func TestKnownBySightBehindOtherTokens(t *testing.T) {
	compiled := func(policy string) *engine {
		m, err := New(Config{Policy: policy, Limits: []Limit{{Quota: 5, Window: time.Minute}}, Secrets: [][]byte{[]byte(strings.Repeat("k", 32))}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return m.loaded()
	}
	e, other := compiled("contact"), compiled("other")
	now := e.now()
	who := &e.about(context.Background(), now, Principal("alice")).who
	tally, _ := e.memory.Take(now, e.base.policy, &limiter.Candidate{Key: who.key}, 1)
	ours := string(who.holder.Append(nil, &tally))
	theirs := string(other.about(context.Background(), now, Principal("alice")).who.holder.Append(nil, &tally))
	forged := ours[:len(ours)-1] + "!" // refused if it is read
	rest := kit.Must(e.codec.Glance(forged))(t)
	require.NotEmpty(t, rest)
	e.tokenCache.Note(e.base.policy, who.key, rest, &tally)
	for line, known := range map[string]int{forged: 1, theirs + ", " + forged: 1, "garbage, " + forged: 0} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(TokenHeader, line)
		q := e.about(context.Background(), now, Principal("alice"))
		q.r = r
		q.readTokens()
		require.Equal(t, known, q.shown.accepted, line)
	}
}
