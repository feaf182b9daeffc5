// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// oneOf returns one of some.
func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// configured invents a configuration that New takes.
func configured(r *rand.Rand) middleware.Config {
	cfg := middleware.Config{Policy: "p", Instances: 1 + r.Int64N(oneOf[int64](r, 1, 3, 10, 300, 1<<20))}
	for i := range 1 + r.IntN(3) {
		l := middleware.Limit{
			Name: fmt.Sprint("l", i), Quota: 1 + r.Int64N(oneOf[int64](r, 1, 20, 1000, 1<<20, 1<<31-1)),
			Window:    time.Second * time.Duration(1+r.Int64N(oneOf[int64](r, 60, 3600, 86400, 366*86400))),
			Algorithm: oneOf(r, storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket),
			Shadow:    i > 0 && r.IntN(5) == 0,
		}
		if l.Algorithm == storeless.TokenBucket && l.Quota > 3 {
			l.Burst = 1 + r.Int64N(l.Quota)
		}
		cfg.Limits = append(cfg.Limits, l)
	}
	cfg.InsecureNoMemory = r.IntN(8) == 0
	if r.IntN(4) == 0 {
		cfg.Net48Factor = 8 + r.Int64N(oneOf[int64](r, 10, 1<<31-8))
	}
	switch r.IntN(6) {
	case 0:
	case 1:
		cfg.Exact = &middleware.Exact{Outage: oneOf(r, middleware.FailOpen, middleware.FailClosed), Contended: oneOf(r, middleware.FailOpen, middleware.FailClosed)}
		for i := range cfg.Limits {
			cfg.Limits[i].Shadow = false
		}
		if l := &cfg.Limits[0]; r.IntN(2) == 0 {
			l.Algorithm, l.Burst, l.Window = storeless.RollingDay, 0, 24*time.Hour
		} else if r.IntN(2) == 0 {
			*l = middleware.Limit{Name: l.Name, Quota: l.Quota, Calendar: oneOf(r, "day", "week", "month"), Zone: oneOf(r, "", "UTC")}
		}
	default:
		cfg.Challenge = &middleware.Challenge{
			Mode: oneOf(r, middleware.WhenExhausted, middleware.WhenBusy, middleware.Newcomers, middleware.EveryRequest),
			Work: 16 + r.Int64N(oneOf[int64](r, 1, 1<<18, 1<<29-16)), Crowd: 1 + r.Int64N(255), SalesPerHour: 1 + r.Int64N(oneOf[int64](r, 32, 100_000)),
			PassTime: time.Second * time.Duration(60+r.Int64N(86400-60)), NoWaitingRoom: r.IntN(3) == 0,
		}
		c := cfg.Challenge
		if c.Mode == middleware.WhenBusy {
			c.BusyPerSecond = 1
		}
		if c.Mode == middleware.EveryRequest && r.IntN(3) == 0 {
			c.NonceOnly, c.Work = true, 0
		}
		if !c.NoWaitingRoom && !cfg.InsecureNoMemory && r.IntN(3) == 0 {
			c.WaitingRoom = 1 + r.Int64N(100)
		}
	}
	if cfg.InsecureNoMemory || r.IntN(8) > 0 || cfg.Challenge != nil && cfg.Challenge.Mode != middleware.EveryRequest {
		return cfg
	}
	cfg.TokenTransport = middleware.MemoryOnly
	return cfg
}

// quotaOf is what a limit is to the truth, which counts microseconds.
func quotaOf(l middleware.Limit) truth.Quota {
	q := truth.Quota{Quota: l.Quota, Window: l.Window.Microseconds()}
	switch {
	case l.Algorithm == storeless.LeakyBucket:
		q.Burst = 1
	case l.Algorithm == storeless.TokenBucket:
		q.Burst = l.Quota
		if l.Burst > 0 {
			q.Burst = l.Burst
		}
	}
	return q
}

// An expectation holds the bounds that package truth gives for one configuration.
type expectation struct {
	cfg            middleware.Config
	life           time.Duration // of a pass
	least          int64         // of a pass
	most, passMost int64         // the largest cost of a request, and of one that a pass pays
	rough          bool          // a pass has a bucket, chosen so that no more than its part of the quota leaks in its life
}

func expectationOf(cfg middleware.Config) expectation {
	e := expectation{cfg: cfg, life: time.Hour, least: 1, most: math.MaxInt64, passMost: math.MaxInt64}
	if cfg.Challenge == nil {
		return e
	}
	for _, l := range cfg.Limits {
		if q := quotaOf(l); l.Window <= cfg.Challenge.PassTime && !l.Shadow {
			e.life, e.least = max(e.life, 2*l.Window), max(e.least, q.Quota)
		}
	}
	for _, l := range cfg.Limits {
		if q := quotaOf(l); !l.Shadow {
			e.most, e.passMost = min(e.most, capacity(q)), min(e.passMost, capacity(e.pass(l)))
			if q.Burst > 0 && l.Window > cfg.Challenge.PassTime {
				e.rough, e.passMost = true, 0
			}
		}
	}
	return e
}

func capacity(q truth.Quota) int64 {
	if q.Burst > 0 {
		return q.Burst
	}
	return q.Quota
}

// pass is what a bought tally has. Of a bucket that is longer than PassTime it has no more than a window would.
func (e *expectation) pass(l middleware.Limit) truth.Quota {
	if l.Window <= e.cfg.Challenge.PassTime {
		return quotaOf(l)
	}
	return quotaOf(l).Pass(e.cfg.Challenge.PassTime.Microseconds(), e.least)
}

// part is one of n parts, at least 1 of whatever there is.
func part(q truth.Quota, n int64) truth.Quota {
	q.Quota = max(1, q.Quota/n)
	if q.Burst > 0 {
		q.Burst = max(1, q.Burst/n)
	}
	return q
}

// fleet is what N instances admit of a tally; nil is not limited.
func (e *expectation) fleet(each *big.Int) *big.Int {
	if e.cfg.InsecureNoMemory {
		return nil
	}
	return new(big.Int).Mul(each, big.NewInt(e.cfg.Instances))
}

func plus(a, b *big.Int) *big.Int {
	if a == nil || b == nil {
		return nil
	}
	return new(big.Int).Add(a, b)
}

// longer is by how many hours the longest window of the calendar is longer than the shortest.
var longer = map[string]int64{"day": 2, "week": 2, "month": 73}

// of says what a client gets of a limit; nil is not limited.
func (e *expectation) of(client string, l middleware.Limit) *big.Int {
	const longest = 366 * 24 * 3600 * 1_000_000
	c, q := e.cfg.Challenge, quotaOf(l)
	factor := e.cfg.Net48Factor
	if factor == 0 {
		factor = 64
	}
	one := q.In(q.Window)
	if x := e.cfg.Exact; x != nil {
		switch client {
		case "whatever it sends":
			return one
		case "the same, and the counter does not answer":
			if x.Outage != middleware.FailOpen && x.Contended != middleware.FailOpen {
				return one
			}
			standIn := e.fleet(part(q, e.cfg.Instances).In(q.Window))
			if hours, more := int64(l.Window/time.Hour), longer[l.Calendar]; more > 0 && standIn != nil { // 2 + d of it, rounded up
				standIn = plus(new(big.Int).Lsh(standIn, 1), standIn.Mul(standIn, big.NewInt(more)).Add(standIn, big.NewInt(hours-1)).Div(standIn, big.NewInt(hours)))
			}
			return plus(one, standIn)
		case "holds a whole IPv6 /48, each /64 a client":
			return new(big.Int).Lsh(one, 16)
		}
	}
	free, net48 := e.fleet(one), e.fleet(q.Times(factor, longest).In(q.Window))
	shared, shared48 := free, net48
	first := c != nil && (c.Mode == middleware.EveryRequest && !c.NonceOnly || c.Mode == middleware.Newcomers && e.passMost >= e.most)
	if first {
		free, net48 = new(big.Int), new(big.Int)
	}
	seconds := workOf(client) / coreHashes
	switch client {
	case "echoes its newest token":
		if c != nil && c.Mode == middleware.Newcomers {
			pass := e.pass(l)
			return pass.In(min(pass.Window, e.life.Microseconds()))
		}
		return one
	case "drops its tokens, or sends requests at once":
		return free
	case "the same, and waits in the waiting room":
		share := int64(5)
		if c.WaitingRoom > 0 {
			share = c.WaitingRoom
		}
		return plus(free, e.fleet(part(q, share).In(q.Window)))
	case "holds a whole IPv6 /48":
		return net48
	}
	crowds := int64(1)
	switch {
	case seconds == 0:
		return big.NewInt(-1)
	case strings.HasPrefix(client, "holds a whole IPv6 /48"):
		crowds, free, shared = 8, net48, shared48
	}
	work := seconds * coreHashes
	if c.Mode == middleware.EveryRequest {
		proofs := big.NewInt(work / c.Work)
		if shown := e.fleet(proofs); shown != nil && shown.Cmp(shared) < 0 {
			return shown
		} else if shown == nil && proofs.Sign() == 0 {
			return proofs
		}
		return shared
	}
	tariff := truth.Tariff{Work: c.Work, Crowd: c.Crowd, Leak: c.SalesPerHour}
	tallies := big.NewInt(tariff.Sold(e.cfg.Instances, crowds, int64((l.Window+e.life)/time.Second), work))
	pass := e.pass(l)
	each := e.fleet(pass.In(min(pass.Window, e.life.Microseconds())))
	if each == nil && tallies.Sign() > 0 {
		return nil
	}
	if each == nil {
		each = new(big.Int)
	}
	return plus(free, tallies.Mul(tallies, each))
}

// What Bounds says of ten thousand configurations is what the formulas of docs/bounds.md say in arbitrary integers.
func TestBoundsAreTheFormulas(t *testing.T) {
	n := 1000
	if kit.Whole() {
		n = 10_000
	}
	clients := map[string]int{}
	for seed := range uint64(n) {
		cfg := configured(handlers.Random(seed))
		bounds, err := middleware.BoundsOf(cfg)
		require.NoError(t, err, "seed %d", seed)
		require.NotEmpty(t, bounds.Rows)
		e := expectationOf(cfg)
		for _, row := range bounds.Rows {
			want := e.of(row.Client, row.Limit)
			got := big.NewInt(row.Admitted)
			if want == nil || !want.IsInt64() {
				want = big.NewInt(math.MaxInt64)
			}
			if e.rough {
				require.LessOrEqual(t, got.Cmp(want), 0, "seed %d: %s: %d of %v, of %d", seed, row.Client, got, row.Limit, want)
				continue
			}
			require.Equal(t, want.String(), got.String(), "seed %d: %s, of %v\n%+v\n%+v", seed, row.Client, row.Limit, cfg, cfg.Challenge)
			clients[row.Client]++
		}
	}
	require.Len(t, clients, 11)
}

// small invents a configuration that can be played: limits that few requests fill, and a price that a second of a core
// pays a few dozen times.
func small(r *rand.Rand) middleware.Config {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.Instances, cfg.MaxClients, cfg.Limits = 1+r.Int64N(4), 1<<12, nil
	cfg.Net56Factor, cfg.Net48Factor = 2, 3
	for i, window := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour}[r.IntN(2):][:1+r.IntN(2)] {
		cfg.Limits = append(cfg.Limits, middleware.Limit{Name: fmt.Sprint("l", i), Quota: 1 + r.Int64N(8), Window: window,
			Algorithm: oneOf(r, storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket)})
	}
	if r.IntN(4) == 0 {
		cfg.Exact = &middleware.Exact{Outage: oneOf(r, middleware.FailOpen, middleware.FailClosed), Deadline: 10 * time.Second}
	} else if r.IntN(4) > 0 {
		cfg.Challenge = &middleware.Challenge{
			Mode: oneOf(r, middleware.WhenExhausted, middleware.Newcomers, middleware.EveryRequest), Path: "/tally/", NoWaitingRoom: true,
			Work: 1<<22 + r.Int64N(1<<23), Crowd: 1 + r.Int64N(8), SalesPerHour: 1 + r.Int64N(8), PassTime: oneOf(r, time.Minute, 30*time.Minute, time.Hour),
		}
	}
	return cfg
}

// A configuredFleet is instances of a configuration, whose counter may be down. A request is noted in the window in which it was admitted.
type configuredFleet struct {
	t         *testing.T
	cfg       middleware.Config
	now       *handlers.Clock
	instances []http.Handler
	down      bool
	admitted  []time.Time
}

func newFleet(t *testing.T, cfg middleware.Config) *configuredFleet {
	f := &configuredFleet{t: t, now: new(handlers.Clock), cfg: cfg}
	f.cfg.Now, f.cfg.Logger = f.now.Now, slog.New(slog.DiscardHandler)
	if cfg.Exact != nil {
		x, counter := *cfg.Exact, memory.New(1<<10, f.now.Now)
		x.Counter = &handlers.Altered{Counter: counter, OnTake: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
			if f.down {
				return exact.Verdict{}, exact.ErrMaybeCounted
			}
			return counter.Take(ctx, call)
		}}
		f.cfg.Exact = &x
	}
	for range cfg.Instances {
		f.instances = append(f.instances, handlers.NewSite(t, f.cfg))
	}
	return f
}

// ask sends one request, and notes when it was admitted.
func (f *configuredFleet) ask(instance int, options ...handlers.Option) (next string, ok bool) {
	got := handlers.Send(f.instances[instance], options...)
	if ok = got.StatusCode == http.StatusOK; ok {
		f.admitted = append(f.admitted, f.now.Now())
	}
	return handlers.TokenIn(got), ok
}

// drain asks each instance until it refuses.
func (f *configuredFleet) drain(options ...handlers.Option) {
	for i := range f.instances {
		for ok := true; ok; {
			_, ok = f.ask(i, options...)
		}
	}
}

// through plays an hour: at the begin, in the middle, and at the end of each ten minutes and each of their first minutes.
func (f *configuredFleet) through(play func()) {
	for range 6 {
		for _, after := range []time.Duration{0, 30 * time.Second, 29 * time.Second, 9*time.Minute - time.Second} {
			f.now.Advance(after)
			play()
		}
		f.now.Advance(2 * time.Second)
	}
}

// most is the most that was admitted in an aligned window of a limit.
func (f *configuredFleet) most(l middleware.Limit) (most int64) {
	counts := map[int64]int64{}
	for _, at := range f.admitted {
		counts[at.Unix()/int64(l.Window/time.Second)]++
	}
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// buy spends a purse in many small steps, each at the instance where a tally costs least, and returns the tokens. The work
// is counted and not done: the secret says the answers, as docs/wire.md hides them.
func (f *configuredFleet) buy(purse int64, from func(i int) string) (tokens []string) {
	for {
		best, least := -1, pow.Challenge{Work: math.MaxUint32}
		addr := from(len(tokens))
		for i := range f.instances {
			if c := f.challenge(i, addr); c.Text != "" && c.Work < least.Work {
				best, least = i, c
			}
		}
		if purse -= int64(least.Work); best < 0 || purse < 0 {
			return tokens
		}
		resp := handlers.RequireStatus(f.t, http.StatusOK, handlers.Redeemed(f.instances[best], f.answer(least.Text), handlers.From(addr)))
		tokens = append(tokens, handlers.TokenIn(resp))
	}
}

// challenge is what an instance offers an address, if it does.
func (f *configuredFleet) challenge(instance int, addr string) (c pow.Challenge) {
	if field := handlers.Fetched(f.instances[instance], handlers.From(addr)).Header.Get(middleware.ChallengeHeader); field != "" {
		var err error
		c, err = pow.ParseHeader(field)
		require.NoError(f.t, err)
	}
	return c
}

// proof shows a proof of what an instance offers, or nothing.
func (f *configuredFleet) proof(instance int, addr string) handlers.Option {
	if c := f.challenge(instance, addr); c.Text != "" {
		return handlers.Proving(f.answer(c.Text))
	}
	return func(*http.Request) {}
}

func (f *configuredFleet) answer(challenge string) string {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	require.NoError(f.t, err)
	key, err := hkdf.Key(sha256.New, f.cfg.Secrets[0], nil, "tallystick/pow/num/1", sha256.Size)
	require.NoError(f.t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write(make([]byte, 4))
	mac.Write(raw[:38])
	sum, span, numbers := mac.Sum(nil), uint64(binary.BigEndian.Uint32(raw[10:])), make([]string, 8)
	for i := range numbers {
		numbers[i] = fmt.Sprint(uint64(binary.BigEndian.Uint32(sum[4*i:])) * span >> 32)
	}
	return challenge + "~" + strings.Join(numbers, ".")
}

// anAddress and ofNetwork are where a client asks from: 9 /64 of each of 3 /56.
func anAddress(int) string   { return "2001:db8::1" }
func ofNetwork(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i%3<<8|i/3%9) }

// coreHashes are the hashes that a core makes in a second.
const coreHashes = 74_700_000

// workOf returns how many hashes a client of a row makes.
func workOf(client string) int64 {
	for how, seconds := range map[string]int64{"works for 1 s": 1, "works for 1 min": 60, "works for 1 h": 3600} {
		if strings.Contains(client, how) {
			return seconds * coreHashes
		}
	}
	return 0
}

// play plays a client of a row, and reports whether it can be played.
func (f *configuredFleet) play(client string) bool {
	from, addresses := anAddress, 1
	if strings.HasPrefix(client, "holds a whole IPv6 /48") {
		from, addresses = ofNetwork, 27
	}
	work := workOf(client)
	drop := func() {
		for i := range addresses {
			f.drain(handlers.From(from(i)))
		}
	}
	switch {
	case client == "echoes its newest token":
		token := ""
		if c := f.cfg.Challenge; c != nil && c.Mode == middleware.Newcomers {
			token = cmp.Or(f.buy(c.Work, from)...)
		}
		f.through(func() {
			for i := range 40 {
				options := []handlers.Option{handlers.From(from(0)), handlers.Showing(token)}
				if c := f.cfg.Challenge; c != nil && c.Mode == middleware.EveryRequest {
					options = append(options, f.proof(0, from(0)))
				}
				next, _ := f.ask(i%len(f.instances), options...)
				token = cmp.Or(next, token)
			}
		})
	case client == "the same, and the counter does not answer":
		f.through(func() {
			for _, f.down = range []bool{false, true} {
				drop()
			}
		})
	case work > coreHashes: // the same with a larger purse, which takes too long
		return false
	case work > 0 && f.cfg.Challenge.Mode == middleware.EveryRequest:
		f.now.Advance(time.Hour - 30*time.Second)
		var proofs [][]handlers.Option
		for n := range work / f.cfg.Challenge.Work {
			proofs = append(proofs, []handlers.Option{handlers.From(from(int(n))), f.proof(0, from(int(n)))})
		}
		f.now.Advance(29 * time.Second)
		for range 2 {
			for _, shown := range proofs {
				f.drain(shown...)
			}
			f.now.Advance(time.Second)
		}
	case work > 0:
		tokens := f.buy(work/4, from) // what it buys early costs less
		f.now.Advance(time.Hour - time.Second)
		tokens = append(tokens, f.buy(work-work/4, from)...)
		f.through(func() {
			drop()
			for i, token := range tokens {
				f.drain(handlers.From(from(i)), handlers.Showing(token))
			}
		})
	default:
		f.through(drop)
	}
	return true
}

// Of two hundred configurations whatever Bounds says is played against real handlers on a clock that is moved: none gets
// more, and each kind of client gets all of it somewhere, or nearly.
func TestBoundsArePlayed(t *testing.T) {
	n := 10
	if kit.Whole() {
		n = 200
	}
	nearest := map[string]float64{}
	for seed := range uint64(n) {
		cfg := small(handlers.Random(seed))
		bounds := kit.Must(middleware.BoundsOf(cfg))(t)
		played := map[string]*configuredFleet{}
		for _, row := range bounds.Rows {
			f := played[row.Client]
			if f == nil {
				f = newFleet(t, cfg)
				if !f.play(row.Client) {
					continue
				}
				played[row.Client] = f
			}
			got := f.most(row.Limit)
			require.LessOrEqual(t, got, row.Admitted, "seed %d: %s, of %v, N = %d", seed, row.Client, row.Limit, cfg.Instances)
			if row.Admitted > 0 {
				nearest[row.Client] = max(nearest[row.Client], float64(got)/float64(row.Admitted))
			}
		}
	}
	t.Log(nearest)
	for client, near := range nearest {
		least := 1.
		switch {
		case strings.HasSuffix(client, "each /64 a client"):
			least = 27. / (1 << 16) // the share that is played
		case workOf(client) > 0:
			least = .75 // its buyer does not buy as cleverly as can be
		}
		require.GreaterOrEqual(t, near, least, client)
	}
}
