// SPDX-License-Identifier: Apache-2.0

package gossip_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

const (
	sec = time.Second
	ms  = time.Millisecond
)

// A player sends the requests of one client, honest or not, in the first twenty seconds.
type player struct {
	name   string
	honest bool // it echoes its newest token
	play   func(w *world, l int64, r *rand.Rand)
}

func each(w *world, from, to, gap time.Duration, f func(k int)) {
	k := 0
	for t := from; t < to; t += gap {
		n := k
		w.at(t, func() { f(n) })
		k++
	}
}

// loop asks again as soon as it was answered, and slower the more often it was refused.
func loop(w *world, place func() int, echo bool) {
	var token limiter.Tally
	refused := 0
	var next func()
	next = func() {
		if w.now > 20*sec {
			return
		}
		shown := limiter.Tally{}
		if echo {
			shown = token
		}
		w.ask(place(), 1, shown, func(ok bool, t limiter.Tally) {
			token = t
			pause := 400 * time.Microsecond
			if !ok {
				refused++
				pause = 2 * ms * time.Duration(min(refused, 50))
			}
			w.after(pause, next)
		})
	}
	next()
}

var players = []player{
	{"floods all at once", false, func(w *world, l int64, r *rand.Rand) {
		for _, at := range []time.Duration{sec, 9990 * ms, 10010 * ms, 15 * sec} {
			for i := range w.n {
				for k := range 2 * l {
					w.at(at+time.Duration(k)*10*time.Microsecond, func() { w.ask(i, 1, limiter.Tally{}, nil) })
				}
			}
		}
	}},
	{"goes round", false, func(w *world, l int64, r *rand.Rand) {
		each(w, 0, 20*sec, 500*ms/time.Duration(l), func(k int) { w.ask(k%w.n, 1, limiter.Tally{}, nil) })
	}},
	{"spends one after the other", false, func(w *world, l int64, r *rand.Rand) {
		each(w, 0, 20*sec, 500*ms/time.Duration(l), func(k int) { w.ask(k/int(2*l)%w.n, 1, limiter.Tally{}, nil) })
	}},
	{"asks each in a loop", false, func(w *world, l int64, r *rand.Rand) {
		for i := range w.n {
			loop(w, func() int { return i }, false)
			loop(w, func() int { return i }, false)
		}
	}},
	{"sends a trickle below the slack, then a flood", false, func(w *world, l int64, r *rand.Rand) {
		each(w, 0, 20*sec, 110*ms, func(k int) { w.ask(k%w.n, 1, limiter.Tally{}, nil) })
		for _, at := range []time.Duration{9500 * ms, 12 * sec} {
			w.at(at, func() {
				for i := range w.n {
					for range l {
						w.ask(i, 1, limiter.Tally{}, nil)
					}
				}
			})
		}
	}},
	{"fills one up to the edge, then all in one moment", false, func(w *world, l int64, r *rand.Rand) {
		for _, b := range []time.Duration{500 * ms, 10500 * ms} {
			for k := range l - 1 - r.Int64N(min(l-1, 4)+0) {
				w.at(b+6*ms*time.Duration(k), func() { w.ask(0, 1, limiter.Tally{}, nil) })
			}
			at := b + 6*ms*time.Duration(l) + time.Duration(r.IntN(1000))*time.Microsecond
			for i := range w.n {
				for range l {
					w.at(at, func() { w.ask(i, 1, limiter.Tally{}, nil) })
				}
			}
		}
	}},
	{"moves on where it waits", false, func(w *world, l int64, r *rand.Rand) {
		place := 0
		each(w, 0, 20*sec, 700*time.Microsecond+time.Duration(r.IntN(2000))*time.Microsecond, func(int) {
			was := w.waited
			w.ask(place, 1, limiter.Tally{}, nil)
			if w.waited > was {
				place = (place + 1) % w.n
			}
		})
	}},
	{"asks where windows end and begin", false, func(w *world, l int64, r *rand.Rand) {
		for _, b := range []time.Duration{9900 * ms, 19900 * ms} {
			each(w, b, b+200*ms, 500*time.Microsecond, func(int) { w.ask(r.IntN(w.n), 1, limiter.Tally{}, nil) })
		}
	}},
	{"asks the newest process", false, func(w *world, l int64, r *rand.Rand) {
		each(w, 0, 20*sec, 2*ms+time.Duration(r.IntN(3000))*time.Microsecond, func(int) {
			newest := w.procs[0]
			for _, p := range w.procs {
				if p.began > newest.began {
					newest = p
				}
			}
			w.ask(newest.place, 1, limiter.Tally{}, nil)
		})
	}},
	{"echoes, one after another", true, func(w *world, l int64, r *rand.Rand) { loop(w, func() int { return r.IntN(w.n) }, true) }},
	{"echoes, six at once", true, func(w *world, l int64, r *rand.Rand) {
		for range 6 {
			loop(w, func() int { return r.IntN(w.n) }, true)
		}
	}},
	{"echoes to one", true, func(w *world, l int64, r *rand.Rand) { loop(w, func() int { return 0 }, true) }},
	{"echoes, politely", true, func(w *world, l int64, r *rand.Rand) {
		var token limiter.Tally
		each(w, 0, 20*sec, 11*sec/time.Duration(l), func(int) {
			w.ask(r.IntN(w.n), 1, token, func(_ bool, t limiter.Tally) { token = t })
		})
	}},
	{"shows old tokens", false, func(w *world, l int64, r *rand.Rand) {
		var got []limiter.Tally
		each(w, 0, 20*sec, 700*ms/time.Duration(l), func(int) {
			t := limiter.Tally{}
			if len(got) > 0 && r.IntN(3) > 0 {
				t = got[r.IntN(len(got))]
			}
			w.ask(r.IntN(w.n), 1, t, func(ok bool, t limiter.Tally) { got = append(got, t) })
		})
	}},
	{"sends what is dear and what is cheap", false, func(w *world, l int64, r *rand.Rand) {
		for range 30 * l {
			w.at(time.Duration(r.Int64N(int64(20*sec))), func() { w.ask(r.IntN(w.n), 1+r.Int64N(min(l, 5)), limiter.Tally{}, nil) })
		}
	}},
	{"sends a third of the limit at once", false, func(w *world, l int64, r *rand.Rand) {
		for range 100 {
			at := time.Duration(r.Int64N(int64(20 * sec)))
			for i := range w.n {
				w.at(at, func() { w.ask(i, max(1, l/3), limiter.Tally{}, nil) })
			}
		}
	}},
	{"has half given back", false, func(w *world, l int64, r *rand.Rand) {
		for range 40 * l {
			w.at(time.Duration(r.Int64N(int64(20*sec))), func() {
				i, cost := r.IntN(w.n), 1+r.Int64N(min(4, max(1, l/2)))
				p := w.procs[i]
				w.ask(i, cost, limiter.Tally{}, func(ok bool, t limiter.Tally) {
					then := p.clock()
					back := r.Int64N(cost + 1)
					if !ok || back == 0 || t[0].At != p.window(0) {
						return
					}
					w.after(time.Duration(r.IntN(50))*ms, func() {
						if p.window(0) == then.UnixMicro()/w.limits[0].Window.Microseconds() {
							w.refund(p, then, back)
						}
					})
				})
			})
		}
	}},
	{"sends bursts", false, func(w *world, l int64, r *rand.Rand) {
		for range 40 {
			at, i := time.Duration(r.Int64N(int64(20*sec))), r.IntN(w.n)
			for range r.IntN(int(l) + 2) {
				w.at(at+time.Duration(r.IntN(2000))*time.Microsecond, func() { w.ask(i, 1, limiter.Tally{}, nil) })
			}
		}
	}},
}

// A fate lists the faults of the processes and of their network.
type fate struct {
	name  string
	set   func(s *setting)
	play  func(w *world, r *rand.Rand)
	parts int64 // that do not hear each other
}

var fates = []fate{
	{"quiet", nil, nil, 1},
	{"slow", func(s *setting) { s.slow = 0.3 }, nil, 1},
	{"loss", func(s *setting) { s.slow, s.loss = 0.1, 0.2 }, nil, 1},
	{"skew", func(s *setting) { s.skew = sec }, nil, 1},
	{"deploy", nil, func(w *world, r *rand.Rand) { inTurn(w, r, true) }, 1},
	{"deploy, loss, skew", func(s *setting) { s.loss, s.skew = 0.05, sec }, func(w *world, r *rand.Rand) { inTurn(w, r, true) }, 1},
	{"crash in turn", nil, func(w *world, r *rand.Rand) { inTurn(w, r, false) }, 1},
	{"crashes", func(s *setting) { s.loss = 0.05 }, func(w *world, r *rand.Rand) {
		for range 1 + r.IntN(4) {
			w.at(time.Duration(r.Int64N(int64(20*sec))), func() { w.restart(r.IntN(w.n), r.IntN(2) == 0) })
		}
	}, 1},
	{"a network of two clients", func(s *setting) { s.slow, s.network = 0.1, true }, func(w *world, r *rand.Rand) { inTurn(w, r, true) }, 1},
	{"a full table of records", func(s *setting) { s.records = 16 }, func(w *world, r *rand.Rand) {
		each(w, 0, 20*sec, 20*ms, func(k int) { // others ask for much, and push the client's records out
			p := w.procs[r.IntN(w.n)]
			if p.dead || p.gone {
				return
			}
			f := limiter.Candidate{Key: p.memory.Key(fmt.Appendf(nil, "other %d", k%40)), Hasty: true}
			p.memory.Take(p.clock(), w.policy, &f, 1+r.Int64N(w.limits[0].Quota/2))
			p.pump()
		})
	}, 10},
	{"two parts", nil, func(w *world, r *rand.Rand) {
		from := time.Duration(r.Int64N(int64(10 * sec)))
		to, half := from+time.Duration(r.Int64N(int64(10*sec))), 1+r.IntN(w.n-1)
		w.cut = func(a, b int) bool { return w.now > from && w.now < to && (a < half) != (b < half) }
	}, 2},
	{"two that do not hear each other", nil, func(w *world, r *rand.Rand) {
		from := time.Duration(r.Int64N(int64(10 * sec)))
		to := from + time.Duration(r.Int64N(int64(10*sec)))
		w.cut = func(a, b int) bool { return w.now > from && w.now < to && a+b == 1 }
	}, 2},
}

func inTurn(w *world, r *rand.Rand, farewell bool) {
	at, gap := sec+time.Duration(r.Int64N(int64(6*sec))), 20*ms+time.Duration(r.Int64N(int64(800*ms)))
	for i := range w.n {
		w.at(at+gap*time.Duration(i), func() { w.restart(i, farewell) })
	}
}

func slackOf(n int, l int64) int64 {
	if l < 2*int64(n) {
		return 1
	}
	return max(2, (l+49)/50)
}

// What clients get of processes that hear each other: no client under its limit is refused, and no more is
// admitted than L + (N+C−1)·max(f, cost) in a window, or P·L and as much where a cut makes P parts.
func TestRule(t *testing.T) {
	seeds := 1
	if kit.Whole() {
		seeds = 8
	}
	for fi, fate := range fates {
		t.Run(fate.name, func(t *testing.T) {
			var asked, wrong, soon, busy, honestBusy, honest, waited, told, admitted int
			worst, longest, late := -1e9, time.Duration(0), 0
			for seed := range seeds {
				for pi, player := range players {
					r := rand.New(rand.NewPCG(uint64(seed), uint64(1000*fi+pi)))
					n, l := []int{2, 3, 5, 10}[r.IntN(4)], []int64{5, 20, 60, 100, 300}[r.IntN(5)]
					first := limiter.Limit{Algorithm: limiter.Algorithm(r.IntN(2)), Quota: l, Window: 10 * sec}
					s := setting{n: n, limits: []limiter.Limit{first}}
					if r.IntN(2) == 0 {
						s.limits = append(s.limits, limiter.Limit{Algorithm: limiter.Algorithm(r.IntN(2)), Quota: l + l/2, Window: 30 * sec})
					}
					if fate.set != nil {
						fate.set(&s)
					}
					w := newWorld(s, uint64(seed*100000+1000*fi+pi))
					if fate.play != nil {
						fate.play(w, r)
					}
					player.play(w, l, r)
					w.run(22 * sec)
					name := fmt.Sprintf("%s, %s, seed %d: N=%d L=%d %v", fate.name, player.name, seed, n, l, s.limits)
					require.Zero(t, w.wrong, "refused under the limit: %s", name)
					for i, limit := range s.limits {
						parts := fate.parts
						if w.late+w.alone > 0 { // by many losses in a row, or a deploy faster than records: it has not heard
							parts = max(parts, 2)
						}
						k := max(slackOf(w.fewest, limit.Quota), w.dearest)
						for at, got := range w.gross[i] {
							starts := int64(0)
							for b, c := range w.begun {
								if int64(time.Duration(b)*10*sec/limit.Window) == at || i == 0 && b == at {
									starts += c
								}
							}
							bound := parts*limit.Quota + (int64(n)-1+starts)*k
							require.LessOrEqual(t, got, bound, "window %d of limit %d: %s, starts %d, late %d", at, i, name, starts, w.late)
							worst = max(worst, float64(got-limit.Quota)/float64(bound-limit.Quota))
						}
					}
					if player.honest {
						honest, honestBusy = honest+w.asked, honestBusy+w.busy
					}
					late += min(w.late, 1)
					asked, wrong, soon, busy, waited, told = asked+w.asked, wrong+w.wrong, soon+w.soon, busy+w.busy, waited+w.waited, told+w.told
					admitted += w.asked - w.refused
					longest = max(longest, w.longest)
				}
			}
			t.Logf("asked %d, refused before a refund was heard of %d, waited %d (longest %v), busy %d, of honest %d of %d; batches %d (%.2f a request admitted), slack used %.2f; in %d runs a peer was late",
				asked, soon, waited, longest, busy, honestBusy, honest, told, float64(told)/float64(admitted), worst, late)
		})
	}
}

// Buckets that are told as counts of aligned windows: no client is refused whose bucket has room by what all
// have admitted, and a window admits B + W/T + (N+C−1)·f.
func TestRuleOfBuckets(t *testing.T) {
	seeds := 5
	if kit.Whole() {
		seeds = 20
	}
	for _, c := range []struct{ burst, quota int64 }{{100, 100}, {20, 100}, {5, 60}} {
		for _, fate := range []fate{fates[0], fates[4], fates[6]} {
			worst := int64(0)
			for seed := range seeds {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(c.burst)))
				n := []int{2, 3, 10}[r.IntN(3)]
				limit := limiter.Limit{Algorithm: limiter.TokenBucket, Quota: c.quota, Burst: c.burst, Window: 10 * sec}
				w := newWorld(setting{n: n, limits: []limiter.Limit{limit}}, uint64(seed))
				if fate.play != nil {
					fate.play(w, r)
				}
				gap := 10 * sec / time.Duration(c.quota)
				gap = []time.Duration{2 * gap, gap, gap * 2 / 3, gap / 3, gap / 20}[seed%5]
				for at := time.Duration(0); at < 60*sec; at += time.Duration(r.ExpFloat64() * float64(gap)) {
					w.at(at, func() { w.ask(r.IntN(n), 1, limiter.Tally{}, nil) })
				}
				w.run(61 * sec)
				require.Zero(t, w.wrong, "%+v, %s, seed %d, N=%d", c, fate.name, seed, n)
				for at, got := range w.gross[0] {
					most := c.burst + c.quota + (int64(n)-1+w.begun[at])*slackOf(n, c.quota)
					require.LessOrEqual(t, got, most, "%+v, %s, seed %d, N=%d", c, fate.name, seed, n)
					worst = max(worst, got-c.burst-c.quota)
				}
			}
			t.Logf("burst %d, %d in ten seconds, %s: at most %+d above B + W/T", c.burst, c.quota, fate.name, worst)
		}
	}
}

// Under another key a tally has another name, and another policy's has, too.
// Proofs that are shown to all, at once and later, are spent once, or once in each part of a cut. A proof
// that is shown once is spent, or stays good.
func TestProofsAreSpentOnce(t *testing.T) {
	seeds := 4
	if kit.Whole() {
		seeds = 40
	}
	for fi, fate := range fates {
		spentOnce, busy := 0, 0
		for seed := range seeds {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(fi)))
			n := []int{2, 3, 5, 10}[r.IntN(4)]
			s := setting{n: n, limits: []limiter.Limit{{Algorithm: limiter.FixedWindow, Quota: 1000, Window: 10 * sec}}}
			if fate.set != nil {
				fate.set(&s)
			}
			w := newWorld(s, uint64(100*seed+fi))
			if fate.play != nil {
				fate.play(w, r)
			}
			spent := map[int]int64{}
			shows := func(k int) {
				ends := time.Duration(k)*100*ms + 8*sec
				if w.now > ends-sec {
					return
				}
				proof := &limiter.Proof{Key: limiter.Key(k + 1), Expires: time.Unix(epoch, 0).Add(ends)}
				w.show(r.IntN(n), &waiter{cost: 1, proof: proof, since: w.now, answer: func(ok bool, _ limiter.Tally) {
					if ok {
						spent[k]++
					}
				}})
			}
			each(w, 0, 20*sec, 100*ms, func(k int) {
				if shows(k); k%2 == 0 {
					return
				}
				for range 2 * n {
					w.after(time.Duration(r.ExpFloat64()*float64([]time.Duration{ms, 100 * ms, sec}[r.IntN(3)])), func() { shows(k) })
				}
			})
			w.run(26 * sec)
			parts := fate.parts
			if w.late+w.alone > 0 {
				parts = max(parts, 2)
			}
			for k, times := range spent {
				require.LessOrEqual(t, times, parts, "proof %d: %s, seed %d, N=%d", k, fate.name, seed, n)
				spentOnce += 1 - k%2
			}
			if busy += w.busy; fate.play == nil && w.late == 0 && w.busy == 0 {
				for k := 0; k < 200; k += 2 {
					require.EqualValues(t, 1, spent[k], "proof %d: %s, seed %d, N=%d", k, fate.name, seed, n)
				}
			}
		}
		t.Logf("%s: of %d proofs that were shown once %d bought; busy %d", fate.name, 100*seeds, spentOnce, busy)
	}
}

// A process whose record of a proof had to make room for others does not take a peer's record for its own:
// the peer has spent the proof.
func TestAProofOfAPeerIsNoneOfOurs(t *testing.T) {
	a, b := two()
	p, err := limiter.Compile("p", []limiter.Limit{{Quota: 10, Window: time.Minute}})
	require.NoError(t, err)
	taker := func(of *gossip.Records) func() limiter.Verdict {
		m := limiter.NewMemory(100, 1)
		m.Join(of, "p")
		proof := &limiter.Proof{Key: 7, Expires: noon.Add(time.Hour)}
		return func() limiter.Verdict {
			_, v := m.Take(noon, p, &limiter.Candidate{Key: 1, Proof: proof}, 1)
			return v
		}
	}
	here, there := taker(a), taker(b)
	require.False(t, here().Admitted, "it waits for the peer")
	for key := uint64(1); a.Stats().Evicted == 0 || a.Stats().Records < 64; key++ {
		a.Add(noon, gossip.Limit{Key: key << 54, Seconds: 60, Number: minute(1).Number}, 9, 100)
	}
	require.False(t, there().Admitted, "it waits for the peer")
	carry(t, noon, b, a, 2, 1)
	require.True(t, there().Admitted)
	require.True(t, here().Spent)
}

// Each point of the rule is named where the code has it.
func TestEachPointIsInTheCode(t *testing.T) {
	var code []byte
	for _, file := range []string{"records.go", "count.go", "peers.go", "hear.go", "sales.go", "../limiter/peers.go"} {
		code = append(code, kit.Must(os.ReadFile(file))(t)...)
	}
	points := regexp.MustCompile(`(?m)^// {1,2}(\d+)\. `).FindAllSubmatch(kit.Must(os.ReadFile("doc.go"))(t), -1)
	require.Len(t, points, 17)
	for _, point := range points {
		require.Regexp(t, `rule `+string(point[1])+`\b`, string(code))
	}
}

func TestKeysOfTallies(t *testing.T) {
	key := func(secret byte, policy, identity string) uint64 {
		return gossip.New(gossip.Config{Key: [16]byte{secret}, Records: 16}).Key(policy, []byte(identity))
	}
	require.Equal(t, key(1, "p", "a"), key(1, "p", "a"))
	require.NotEqual(t, key(1, "p", "a"), key(2, "p", "a"))
	require.NotEqual(t, key(1, "p", "a"), key(1, "q", "a"))
	require.NotEqual(t, key(1, "p", "a"), key(1, "p", "b"))
}

// A bucket that is full where a window ends is full where the next begins.
func TestBucketsOverTheEnd(t *testing.T) {
	a, b := two()
	policy, err := limiter.Compile("p", []limiter.Limit{{Algorithm: limiter.TokenBucket, Quota: 60, Burst: 20, Window: time.Minute}})
	require.NoError(t, err)
	memories := []*limiter.Memory{limiter.NewMemory(16, 1), limiter.NewMemory(16, 1)}
	memories[0].Join(a, "p")
	memories[1].Join(b, "p")
	f := limiter.Candidate{Key: memories[0].Key([]byte("client"))}
	memories[0].Record(at(59*sec), policy, &f, 80)
	carry(t, at(59*sec), a, b, 1, 2)
	for second, admitted := range map[int]bool{59: false, 60: false, 61: true} {
		v := memories[1].Peek(at(time.Duration(second)*sec), policy, &f, 1)
		require.Equal(t, admitted, v.Admitted, "at %d", second)
	}
}

// A clock that was an hour ahead leaves no window behind that has not begun.
func TestAClockIsSetBack(t *testing.T) {
	a, _ := two()
	ahead := minute(1)
	ahead.Number += 60
	a.Add(at(time.Hour), ahead, 5, 2)
	require.EqualValues(t, 5, look(a, minute(1)).Sum, "it may be a late request")
	a.Present(noon)
	h := look(a, minute(1))
	require.Equal(t, minute(1).Number, h.Number)
	require.Zero(t, h.Sum)
	a.Add(noon, minute(1), 2, 2)
	require.EqualValues(t, 2, look(a, minute(1)).Sum)
}

// What a bucket admits counts in the window of a peer whose clock is ahead.
func TestABucketBehindItsPeer(t *testing.T) {
	a, b := two()
	policy, err := limiter.Compile("p", []limiter.Limit{{Algorithm: limiter.TokenBucket, Quota: 60, Burst: 20, Window: time.Minute}})
	require.NoError(t, err)
	m := limiter.NewMemory(16, 1)
	m.Join(a, "p")
	other := limiter.NewMemory(16, 1)
	other.Join(b, "p")
	f := limiter.Candidate{Key: m.Key([]byte("client")), Hasty: true}
	other.Take(at(61*sec), policy, &f, 2)
	carry(t, at(61*sec), b, a, 2, 1)
	for range 3 {
		_, v := m.Take(at(58*sec), policy, &f, 1)
		require.True(t, v.Admitted)
	}
	carry(t, at(59*sec), a, b, 1, 2)
	require.EqualValues(t, 20-4, other.Peek(at(61*sec), policy, &f, 0).Limits[0].Remaining, "five since the minute began, of which one has leaked")
}

// A request that has nothing to wait for allocates nothing.
func TestAllocations(t *testing.T) {
	a, _ := two()
	policy, err := limiter.Compile("p", []limiter.Limit{{Algorithm: limiter.SlidingWindow, Quota: 1 << 30, Window: time.Minute}})
	require.NoError(t, err)
	m := limiter.NewMemory(16, 1)
	m.Join(a, "p")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		f := limiter.Candidate{Key: m.Key([]byte("client"))}
		_, v := m.Take(noon, policy, &f, 1)
		require.True(t, v.Admitted)
	}))
}

func BenchmarkTake(b *testing.B) {
	policy, _ := limiter.Compile("p", []limiter.Limit{{Algorithm: limiter.SlidingWindow, Quota: 1 << 30, Window: time.Minute}})
	for _, n := range []int{0, 1, 2, 10} {
		b.Run(fmt.Sprint("peers ", n), func(b *testing.B) {
			m := limiter.NewMemory(0, 1)
			if n > 0 {
				r := gossip.New(gossip.Config{Name: 100})
				r.Ready()
				for peer := range n - 1 {
					r.Joined(noon, uint64(peer+1))
				}
				m.Join(r, "p")
			}
			var ids [1024][]byte
			for i := range ids {
				ids[i] = fmt.Appendf(nil, "client %d", i)
			}
			i := 0
			for b.Loop() {
				f := limiter.Candidate{Key: m.Key(ids[i%1024])}
				i++
				m.Take(noon, policy, &f, 1)
			}
		})
	}
}
