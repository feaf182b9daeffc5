// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func addresses(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.%d.%d:9000", i/250, i%250+1))
	}
	return list
}

// A fleet that starts at once is ready in a moment, and hears itself over one connection a pair.
func TestAFleetHearsItself(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10} {
		kit.RunBubble(t, fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			all := w.fleet(addresses(n)...)
			for _, m := range all {
				require.Less(t, m.took, 400*time.Millisecond)
				require.NotContains(t, m.log.String(), "code=")
				require.Len(t, m.Stats().Heard, n-1)
			}
			time.Sleep(time.Second)
			require.Equal(t, n*(n-1)/2, w.open())
			require.LessOrEqual(t, w.dials, n*n, "each dials each, itself too, once at most")
			for _, m := range all {
				m.add(1)
			}
			time.Sleep(20 * time.Millisecond)
			for _, m := range all {
				require.EqualValues(t, n, m.sum())
			}
			closeAll(all...)
			for _, m := range all {
				require.Empty(t, m.log.String())
			}
		})
	}
}

// until waits, for at most a minute of the bubble, until something is so, and returns how long that took.
func until(t *testing.T, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		require.Less(t, time.Since(began), time.Minute)
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// A process that starts has the records of a peer before Open returns, of those too that have ended.
func TestANewcomerTakesOverTheRecords(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(4)
		all := w.fleet(list[:3]...)
		for i, m := range all {
			m.add(int64(i + 1))
		}
		time.Sleep(time.Second)
		w.kill(all[2])
		late := w.start(list[3], members(list...))
		require.EqualValues(t, 6, late.sum())
		require.Less(t, late.took, 400*time.Millisecond)
		late.add(10)
		all[0].add(100)
		time.Sleep(50 * time.Millisecond)
		require.EqualValues(t, 116, late.sum())
		require.EqualValues(t, 116, all[0].sum())
		next, due := all[0].records.Next()
		require.True(t, due && next.After(all[0].pace()), "what the dead one is told does not have run turn without a pause")
		closeAll(all[0], all[1], late)
	})
}

// The records of a process that is starting itself are none.
func TestANewcomerAsksNoNewcomer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(8)
		old := w.start(list[0], members(list[:1]...))
		old.add(5)
		w.cut(away(list[0], list[1:7]...))
		starting := make(chan *member)
		for _, address := range list[1:7] {
			go func() { starting <- w.start(address, members(list...)) }()
		}
		time.Sleep(100 * time.Millisecond)
		last := w.start(list[7], members(list...))
		require.Equal(t, 5, last.sum(), "it has met all")
		for range list[1:7] {
			m := <-starting
			require.Equal(t, 5, m.sum(), "it has them of the last, which has taken them over")
			defer closeAll(m)
		}
		w.cut(nil)
		closeAll(old, last)
	})
}

// A process that hears one which starts too is not alone, whatever else its list has.
func TestTwoThatStartAreNotAlone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list, first := newWorld(t), addresses(3), make(chan *member)
		go func() { first <- w.start(list[0], members(list...)) }()
		second := w.start(list[1], members(list...))
		all := []*member{<-first, second}
		for _, m := range all {
			require.Len(t, m.Stats().Heard, 1)
			require.NotContains(t, m.log.String(), "peers-alone")
		}
		closeAll(all...)
	})
}

// Without an answer a process starts after a second, and says so.
func TestAloneAfterASecond(t *testing.T) {
	for name, silent := range map[string]bool{"nothing listens": false, "it does not answer": true} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list := newWorld(t), addresses(2)
			if silent {
				w.cut(away(list[0], list[1]))
			}
			m := w.start(list[0], members(list...))
			require.InDelta(t, time.Second, m.took, float64(100*time.Millisecond))
			require.Contains(t, m.log.String(), "code=peers-alone")
			require.EqualValues(t, 1, m.ready)
			time.Sleep(silence)
			require.Contains(t, m.log.String(), "code=peers-gone member=10.0.0.2:9000 ")
			w.cut(nil)
			second := w.start(list[1], members(list...))
			until(t, func() bool { return len(m.Stats().Heard) == 1 })
			require.Contains(t, m.log.String(), "code=peers-back member=10.0.0.2:9000 ")
			closeAll(m, second)
		})
	}
}

// A peer that does not answer is late after 0.1 s, and dropped after 10. The others hear each other all the time, and
// when it is back it hears what it has missed.
func TestASilentPeerHoldsUpNoOther(t *testing.T) {
	for _, test := range []struct {
		name string
		cut  time.Duration
		code string
	}{{"for a second", time.Second, "peers-late"}, {"for a minute", time.Minute, "peers-gone"}} {
		kit.RunBubble(t, test.name, func(t *testing.T) {
			w, list := newWorld(t), addresses(3)
			all := w.fleet(list...)
			time.Sleep(time.Second)
			w.cut(away(list[2], list[0], list[1]))
			all[2].add(1000)
			for i := range 100 {
				all[0].add(1)
				time.Sleep(10 * time.Millisecond)
				require.EqualValues(t, i+1, all[1].sum(), "%d", i)
			}
			require.Contains(t, all[0].log.String(), "code=peers-late member=10.0.0.3:9000 ")
			require.Equal(t, []string{list[2]}, all[0].Stats().Silent)
			require.Equal(t, []string{list[1]}, all[0].Stats().Heard)
			time.Sleep(test.cut - time.Second)
			require.Contains(t, all[0].log.String(), "code="+test.code+" ")
			require.NotContains(t, all[0].log.String(), "code=peers-back ")
			w.cut(nil)
			took := until(t, func() bool {
				return all[2].sum() == 1100 && all[1].sum() == 1100 && all[0].sum() == 1100 && all[0].Stats().Silent == nil
			})
			require.Less(t, took, 2*time.Second)
			synctest.Wait()
			require.Contains(t, all[0].log.String(), "code=peers-back member=10.0.0.3:9000 ")
			time.Sleep(time.Second)
			require.Equal(t, 3, w.open())
			w.cut(away(list[2], list[0], list[1]))
			all[0].add(1)
			time.Sleep(time.Second)
			require.Equal(t, list[2:], all[0].Stats().Silent)
			w.cut(nil)
			time.Sleep(time.Second)
			require.Empty(t, all[0].Stats().Silent)
			require.Equal(t, strings.Count(all[0].log.String(), "code=peers-late "), strings.Count(all[0].log.String(), "code=peers-back "))
			closeAll(all...)
		})
	}
}

// Connections that break are made anew, and nothing is lost.
func TestConnectionsBreak(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list...)
		for i := range 300 {
			all[i%3].add(1)
			if i%10 == 0 {
				w.breaks(list[i%3], list[(i+1)%3])
			}
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		until(t, func() bool {
			return all[0].sum() == 300 && all[1].sum() == 300 && all[2].sum() == 300
		})
		time.Sleep(time.Second)
		require.Equal(t, 3, w.open())
		closeAll(all...)
	})
}

// Close tells what is not told, and its peers know at once that it has left. One that is silent holds it up for 0.4 s at most.
func TestFarewell(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list...)
		time.Sleep(time.Second)                           // each has the records of each
		all[0].records.Add(time.Now(), counted(), 7, 100) // less than is told without a farewell
		time.Sleep(time.Second)
		require.Zero(t, all[1].sum())
		began := time.Now()
		require.NoError(t, all[0].Close(t.Context()))
		require.Less(t, time.Since(began), 20*time.Millisecond)
		require.EqualValues(t, 7, all[1].sum())
		require.Equal(t, []string{list[2]}, all[1].Stats().Heard)
		time.Sleep(30 * time.Second)
		require.NotContains(t, all[1].log.String(), "code=", "lists have it for a while")
		time.Sleep(time.Minute)
		require.Contains(t, all[1].log.String(), "code=peers-gone member=10.0.0.1:9000 ", "it is on the list")

		w.cut(away(list[1], list[2]))
		all[1].add(1)
		began = time.Now()
		require.ErrorIs(t, all[1].Close(t.Context()), errUntold)
		require.LessOrEqual(t, time.Since(began), farewellAfter)
		require.ErrorIs(t, all[1].Close(t.Context()), errUntold, "the same")
		w.cut(nil)
		require.NoError(t, all[2].Close(t.Context()))
	})
}

// A process that is dialed while it ends tells what is untold there too, and says farewell.
func TestFarewellToANewcomer(t *testing.T) {
	for name, tells := range map[string]bool{"before it has said farewell": true, "afterwards": false} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list, starting := newWorld(t), addresses(3), make(chan *member)
			all := w.fleet(list[:2]...)
			time.Sleep(time.Second)
			w.delay.Store(int64(10 * time.Millisecond))
			w.cut(map[[2]string]bool{{list[1], list[0]}: true}) // so the end takes a while
			if tells {
				all[0].add(1)
			}
			go func() { starting <- w.start(list[2], members(list...)) }()
			time.Sleep(15 * time.Millisecond) // it has connected
			err := all[0].Close(t.Context())
			newcomer := <-starting
			if tells {
				require.ErrorIs(t, err, errUntold)
				require.Equal(t, 1, newcomer.sum())
			}
			w.cut(nil)
			time.Sleep(30 * time.Second)
			require.Equal(t, list[1:2], newcomer.Stats().Heard)
			require.NotContains(t, newcomer.log.String(), "code=", "lists have it for a while")
			closeAll(all[1], newcomer)
		})
	}
}

// A newcomer that has not met a process which ends hears its last word of the others.
func TestTheLastWordComesToANewcomer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list[:2]...)
		time.Sleep(time.Minute)
		w.cut(map[[2]string]bool{{list[1], list[0]}: true}) // the last word is under way
		all[1].add(1)
		go closeAll(all[1])
		time.Sleep(time.Millisecond)
		newcomer := w.start(list[2], members(list...))
		require.Zero(t, newcomer.sum(), "it has the records of the other, which has not heard it")
		w.cut(nil)
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 1, all[0].sum())
		require.Equal(t, 1, newcomer.sum())
		require.Equal(t, list[:1], newcomer.Stats().Heard)
		closeAll(all[0], newcomer)
	})
}

// Of a peer that was late, or gone, the log tells the end too where the peer says farewell, or is taken off the list.
func TestEndsAreTold(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		byDNS := func(c *Config) { c.DNS = "tally.internal:9000" }
		w.dns.says("10.0.0.1", "10.0.0.2", "10.0.0.3")
		a, b, c := w.start("10.0.0.1:9000", byDNS), w.start("10.0.0.2:9000", byDNS), w.start("10.0.0.3:9000", byDNS)
		time.Sleep(time.Second)
		w.cut(away(a.address, b.address))
		a.add(1)
		time.Sleep(time.Second)
		require.Contains(t, a.log.String(), "code=peers-late member=10.0.0.2:9000 ")
		go closeAll(b)
		time.Sleep(farewellAfter / 2)
		w.cut(nil)
		time.Sleep(time.Second)
		require.Contains(t, a.log.String(), `code=peers-back member=10.0.0.2:9000 because="it has said farewell" `)

		w.kill(c)
		time.Sleep(silence + time.Second)
		require.Contains(t, a.log.String(), "code=peers-gone member=10.0.0.3:9000 ")
		require.NotContains(t, a.log.String(), "code=peers-back member=10.0.0.3:9000 ")
		w.dns.says("10.0.0.1", "10.0.0.4")
		time.Sleep(every + time.Second)
		require.Contains(t, a.log.String(), `code=peers-back member=10.0.0.3:9000 because="it is on no list" `)
		require.NotContains(t, a.log.String(), `code=peers-gone member=10.0.0.2:9000 `)
		closeAll(a)
	})
}

// A process that is started again at an address is another peer.
func TestAnAddressIsStartedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		all := w.fleet(list...)
		for i := range 5 {
			all[1].add(1)
			time.Sleep(time.Second)
			if i%2 == 0 {
				w.kill(all[1])
			} else {
				closeAll(all[1])
			}
			all[1] = w.start(list[1], members(list...))
			require.EqualValues(t, i+1, all[1].sum())
			require.EqualValues(t, i+1, all[0].sum())
		}
		time.Sleep(silence + time.Second)
		require.Equal(t, []string{list[1]}, all[0].Stats().Heard)
		require.Empty(t, all[0].Stats().Silent)
		closeAll(all...)
	})
}

// What the log says last of an address is so, whether the list has it by its name or not, and a death is one line.
func TestTheLastWordIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		told bool // a request comes while it is away, and not when it is back
		back time.Duration
		host string
		says []string
	}{
		"before it is dropped": {true, 2 * time.Second, "10.0.0.2", []string{"late 10.0.0.2", "back 10.0.0.2"}},
		"and then told":        {false, 2 * time.Second, "10.0.0.2", []string{"late 10.0.0.2", "back 10.0.0.2"}},
		"later":                {true, 13 * time.Second, "10.0.0.2", []string{"late 10.0.0.2", "gone 10.0.0.2", "back 10.0.0.2"}},
		"later, by its name":   {true, 13 * time.Second, "b", []string{"late 10.0.0.2", "gone b", "back 10.0.0.2", "back b"}},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list := newWorld(t), []string{"10.0.0.1:9000", c.host + ":9000"}
			unnamed := func(c *Config) {
				dial := c.Dial
				c.Self, c.Members = "", list
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					return dial(ctx, network, strings.Replace(address, "b:", "10.0.0.2:", 1))
				}
			}
			a := w.start(list[0], unnamed)
			b := w.start("10.0.0.2:9000", unnamed)
			time.Sleep(time.Minute)
			a.log.Reset()
			w.kill(b)
			if c.told {
				a.add(1)
			}
			time.Sleep(c.back)
			b = w.start("10.0.0.2:9000", unnamed)
			if !c.told {
				a.add(1)
			}
			time.Sleep(time.Second)
			require.Equal(t, []string{"10.0.0.2:9000"}, a.Stats().Heard)
			require.Empty(t, a.Stats().Silent)
			time.Sleep(2 * time.Minute)
			var says []string
			for _, line := range regexp.MustCompile(`code=peers-(\w+) member=([\w.]+):9000 `).FindAllStringSubmatch(a.log.String(), -1) {
				says = append(says, line[1]+" "+line[2])
			}
			require.Equal(t, c.says, says)
			require.NotContains(t, a.log.String(), "<nil>")
			require.EqualValues(t, 1, a.Stats().Gone)
			closeAll(a, b)
		})
	}
}

// Others tell when two processes have said one address for a minute, and so does a process whose own address another says.
// A process that is started again at an address is no alarm, though the connection to the one before it has not ended.
func TestTwoProcessesSayOneAddress(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		elsewhere := func(c *Config) { c.Dial = w.dial("10.0.0.3:9000") }
		a := w.start(list[0], members(list...))
		before := w.start(list[1], members(list...))
		w.cut(away(list[1], list[0])) // its machine has no power
		time.Sleep(100 * time.Millisecond)
		b := w.start(list[1], members(list...), elsewhere)
		time.Sleep(2 * time.Minute)
		require.Equal(t, list[1:], a.Stats().Heard)
		require.NotContains(t, a.log.String(), "peers-same-self")
		w.kill(before)
		w.cut(nil)
		twin := w.start(list[1], members(list...), elsewhere, func(c *Config) { c.Listener = w.listen("10.0.0.3:9000") })
		w.mu.Lock()
		w.hosts[list[1]] = b.listener.(*host).conns
		w.mu.Unlock()
		time.Sleep(patience - 2*time.Second)
		require.Equal(t, []string{list[1], list[1]}, a.Stats().Heard)
		all := []*member{a, b, twin}
		for _, m := range all {
			require.NotContains(t, m.log.String(), "peers-same-self", "a deploy may take a minute")
		}
		time.Sleep(8 * time.Second)
		for _, m := range all {
			require.Contains(t, m.log.String(), "code=peers-same-self member=10.0.0.2:9000 ")
		}
		closeAll(all...)
	})
}

// Where only one end has dropped the other, both take over each other's records when they meet again: what the one has
// told the rest meanwhile, the other does not know.
func TestOneEndHasDroppedTheOther(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list...)
		time.Sleep(time.Second)
		w.cut(map[[2]string]bool{{list[1], list[0]}: true}) // of two directions
		for range 100 {
			all[0].add(1)
			time.Sleep(103 * time.Millisecond)
		}
		require.Contains(t, all[0].log.String(), "code=peers-gone member=10.0.0.2:9000 ")
		require.NotContains(t, all[1].log.String(), "code=peers-gone ")
		w.cut(away(list[1], list[2])) // no other tells it
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 100, all[1].sum())
		require.NotContains(t, all[1].log.String(), "code=peers-gone ")
		closeAll(all...)
	})
}

// A record that is evicted is told of.
func TestAFullTableIsTold(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := newWorld(t).start("10.0.0.1:9000", members("10.0.0.1:9000"))
		for key := range uint64(17) { // of one set
			l := counted()
			l.Key += key
			m.records.Add(time.Now(), l, 1, 1)
		}
		require.EqualValues(t, 1, m.Stats().Evicted)
		time.Sleep(silence + time.Second)
		require.Contains(t, m.log.String(), "code=peers-full evicted=1 ")
		closeAll(m)
	})
}

// A peer that is met while the records of another are taken over is asked for its own: what it had told before is in none
// of the chunks that have come, and it does not tell that again.
func TestAPeerIsMetDuringTheStart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(4)
		all := w.fleet(list[:3]...)
		for key := range uint64(1 << 14) { // they take a second
			l := counted()
			l.Key += key << 50
			all[0].records.Add(time.Now(), l, 1, 1)
		}
		time.Sleep(time.Second)
		w.cut(away(list[3], list[2]))
		w.delay.Store(int64(15 * time.Millisecond))
		began, starting := time.Now(), make(chan *member)
		go func() { starting <- w.start(list[3], members(list...)) }()
		time.Sleep(600 * time.Millisecond) // the first chunk has come
		all[2].add(5)
		time.Sleep(200 * time.Millisecond)
		w.cut(nil)
		last := <-starting
		require.Greater(t, time.Since(began), 900*time.Millisecond)
		require.NotContains(t, last.log.String(), "peers-alone")
		took := until(t, func() bool { return last.sum() == 6 })
		require.Less(t, took, 500*time.Millisecond, "at once, and not with the next status")
		closeAll(append(all, last)...)
	})
}

// Pace is no matter of the clock of windows: a process tells while that stands, and no peer is late where it goes ahead in leaps.
func TestPaceHasAClockOfItsOwn(t *testing.T) {
	for name, leap := range map[string]time.Duration{"stands": 0, "leaps": 400 * time.Millisecond} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list := newWorld(t), addresses(2)
			began, reads := time.Now(), new(atomic.Int64)
			a := w.start(list[0], members(list...), func(c *Config) {
				c.Now = func() time.Time { return began.Add(time.Duration(reads.Add(1)) * leap / 1000) }
			})
			b := w.start(list[1], members(list...))
			time.Sleep(time.Second) // both have dialed, and one connection is left
			for n := range 20 {
				a.add(1)
				time.Sleep(100 * time.Millisecond)
				require.Equal(t, n+1, b.sum())
				require.Empty(t, a.Stats().Silent)
			}
			closeAll(a, b)
		})
	}
}

// A clock that steps back, or ahead, does not keep a process from telling.
func TestAClockSteps(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list := newWorld(t), addresses(2)
			var off atomic.Int64
			a := w.start(list[0], members(list...), func(c *Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
			})
			b := w.start(list[1], members(list...))
			a.add(1)
			time.Sleep(time.Second)
			off.Store(int64(step))
			a.add(1)
			time.Sleep(time.Second)
			require.Equal(t, 2, b.sum())
			w.cut(away(list[0], list[1]))
			a.add(1)
			time.Sleep(time.Second)
			require.Equal(t, list[1:], a.Stats().Silent)
			w.cut(nil)
			until(t, func() bool { return b.sum() == 3 && len(a.Stats().Silent) == 0 })
			closeAll(a, b)
		})
	}
}
