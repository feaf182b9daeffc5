// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
)

var breakerStart = time.Unix(1_800_000_000, 0)

const aDeadline = 50 * time.Millisecond

// fails has a call fail that set out at a time and took its deadline.
func fails(b *breaker, at time.Time) time.Time {
	b.note(at)
	b.failed(at, at.Add(aDeadline), aDeadline)
	return at.Add(aDeadline)
}

// failing opens a breaker, and returns when its next probe is due.
func failing(t *testing.T, b *breaker, now time.Time) time.Time {
	t.Helper()
	for i := range breakAfter {
		require.True(t, b.admits(now, aDeadline))
		now = fails(b, now)
		require.Equal(t, i == breakAfter-1, b.open())
	}
	return now.Add(aDeadline)
}

func TestBreakerOpensAfterASpanOfFailures(t *testing.T) {
	var b breaker
	for range 100 {
		fails(&b, breakerStart)
	}
	require.False(t, b.open(), "all were out in one moment")
	fails(&b, breakerStart.Add(span(aDeadline)-aDeadline-time.Microsecond))
	require.False(t, b.open())
	fails(&b, breakerStart.Add(span(aDeadline)-aDeadline))
	require.True(t, b.open())

	b.succeeded()
	require.False(t, b.open())
	for i := range breakAfter - 1 {
		fails(&b, breakerStart.Add(time.Duration(i)*time.Hour))
		require.False(t, b.open(), "few failures, however long they take")
	}
	b.succeeded()
	failing(t, &b, breakerStart)
}

// From one deadline the probes lie apart twice as far each time, up to 0.9 seconds from
// one to the next.
func TestBreakerProbes(t *testing.T) {
	var b breaker
	due := failing(t, &b, breakerStart)
	for _, pause := range []time.Duration{100, 200, 400, 800, 900, 900} {
		require.False(t, b.admits(due.Add(-time.Microsecond), aDeadline))
		require.True(t, b.admits(due, aDeadline))
		require.False(t, b.admits(due, aDeadline), "one")
		require.False(t, b.admits(due.Add(aDeadline), aDeadline), "it may be on its way")
		fails(&b, due)
		require.True(t, b.open())
		due = due.Add(pause * time.Millisecond)
	}
	require.True(t, b.admits(due, aDeadline))
	b.succeeded()
	require.False(t, b.open())
	failing(t, &b, due) // it takes as many failures as before
}

// However long a call takes, an open breaker holds others back after it.
func TestBreakerPausesAfterALongProbe(t *testing.T) {
	const long = 3 * time.Second
	var b breaker
	now := breakerStart
	for range breakAfter {
		b.note(now)
		b.failed(now, now.Add(long), long)
	}
	now = now.Add(long)
	require.True(t, b.open())
	require.False(t, b.admits(now.Add(probePause-1), long))
	require.True(t, b.admits(now.Add(probePause), long))
}

func TestBreakerUnderAClockThatStepsBack(t *testing.T) {
	var b breaker
	failing(t, &b, breakerStart)
	require.True(t, b.admits(breakerStart.Add(-time.Hour), aDeadline), "not shut for an hour")
}

// A counter is well when none of its parts is known to fail.
func TestACounterIsWellIfAllOfItIs(t *testing.T) {
	var g Guard
	now := breakerStart
	require.True(t, g.Well(now))
	p, terms := &g.parts[3], terms{aDeadline, 8}
	call := func(how comeback) {
		began := now
		for p.breaker.until > now.UnixMicro() {
			now = now.Add(time.Millisecond)
		}
		ticket, outcome, err := p.enter(now, func() time.Time { return now }, Payer, "k", terms)
		require.NoError(t, err)
		require.Equal(t, Answered, outcome)
		now = now.Add(aDeadline)
		p.leave(&ticket, how, terms)
		if how != answered {
			p.judge(&ticket, failure{began: began, ended: now, late: how == late}, terms)
		}
	}
	for range breakAfter - 1 {
		call(lost)
		require.True(t, g.Well(now), "single failures are none")
	}
	call(lost)
	require.False(t, g.Well(now))
	g.parts[4].answers++ // whatever others do
	require.False(t, g.Well(now.Add(59*time.Second)))
	require.False(t, g.Well(now.Add(-59*time.Second)), "a clock that steps back")
	require.True(t, g.Well(now.Add(time.Minute)), "no call asks it any more")
	call(lost)
	require.False(t, g.Well(now))
	call(answered)
	require.True(t, g.Well(now))
}

var boundTerms = terms{deadline: 50 * time.Millisecond, most: 256}

// trip has as many calls go out as may, and come back after the same time.
func trip(b *bound, took time.Duration) int {
	n := b.places(boundTerms.most)
	first := b.sent
	b.sent += uint64(n)
	for i := range n {
		b.answered(first+uint64(i)+1, took, true, boundTerms)
	}
	return b.places(boundTerms.most)
}

func TestBoundGrowsWhereAnswersAreQuick(t *testing.T) {
	var b bound
	require.Equal(t, firstBound, b.places(256))
	require.Equal(t, 3, (&bound{}).places(3), "not above InFlight")
	require.Equal(t, 2*firstBound, trip(&b, time.Millisecond))
	require.Equal(t, 4*firstBound, trip(&b, time.Millisecond))
	one := trip(&b, 5*time.Millisecond)
	require.InDelta(t, 4*firstBound+1, one, 1, "with a queue, by one in a round trip")
	require.Equal(t, one, trip(&b, 8*time.Millisecond), "with a longer one not at all")
	require.Equal(t, one, trip(&b, 16*time.Millisecond))
	for range 100 {
		trip(&b, time.Millisecond)
	}
	require.Equal(t, 256, b.places(256))
	b.answered(b.sent, time.Millisecond, true, boundTerms)
	require.Equal(t, 256, b.places(256), "never above InFlight")
}

func TestBoundStaysWhereNobodyNeedsMore(t *testing.T) {
	var b bound
	b.places(256)
	for n := range uint64(100) {
		b.sent++
		b.answered(n+1, time.Millisecond, false, boundTerms)
	}
	require.Equal(t, firstBound, b.places(256))
}

// It shrinks once in a round trip, however many of its answers are late: they tell of one
// queue.
func TestBoundShrinksBeforeTheDeadline(t *testing.T) {
	var b bound
	for b.places(256) < 256 {
		trip(&b, time.Millisecond)
	}
	require.Equal(t, 192, trip(&b, 26*time.Millisecond))
	require.Equal(t, 144, trip(&b, 26*time.Millisecond))
	require.Greater(t, b.reserve(50*time.Millisecond), 26*time.Millisecond, "a call must have time for it")
	b.missed(b.shrunk, true, true, boundTerms)
	require.Equal(t, 144, b.places(256), "it went out before")
	b.sent++
	b.missed(b.sent, false, false, boundTerms)
	require.Equal(t, 72, b.places(256), "answers are slow, and some are too late")
	b.sent++
	b.missed(b.sent, true, false, boundTerms)
	require.Equal(t, 36, b.places(256), "no call is answered")
	for range 5 {
		b.sent++
		b.missed(b.sent, true, false, boundTerms)
	}
	require.Equal(t, fewCalls, b.places(256), "among few")
	b.sent++
	b.missed(b.sent, true, true, boundTerms)
	require.Equal(t, 1, b.places(256), "among many")
}

// A call that misses while others are answered soon has met no queue.
func TestBoundIsNotWhatOneKeyMakesOfIt(t *testing.T) {
	var b bound
	trip(&b, time.Millisecond)
	b.sent++
	b.missed(b.sent, false, false, boundTerms)
	require.Equal(t, 2*firstBound, b.places(256))
}

// A counter that takes long without a queue is let have more calls again, after few were out in
// vain.
func TestBoundLearnsWhatACallTakes(t *testing.T) {
	var b bound
	trip(&b, time.Millisecond)
	for b.places(256) > 1 {
		trip(&b, 35*time.Millisecond)
	}
	for range 2 * loneAnswers {
		trip(&b, 35*time.Millisecond)
	}
	require.Greater(t, b.places(256), 1)
	require.Equal(t, 35*time.Millisecond, b.lone)
}

// times has one call after the other time out, each after a pause, until it is an outage or
// the time is over. Their deadlines are noticed with a delay. It returns how many were load,
// how many had the policy's choice, and after how long it was an outage.
func times(t *testing.T, p *part, long, pause time.Duration, delay func(n int) time.Duration) (load, choice int, outage time.Duration) {
	t.Helper()
	terms, began := terms{aDeadline, 8}, time.Now()
	for n := 0; time.Since(began) < long; n++ {
		now := time.Now()
		ticket, outcome, err := p.enter(now, time.Now, Payer, "k", terms)
		require.NoError(t, err)
		require.Equal(t, Answered, outcome)
		time.Sleep(aDeadline + delay(n))
		p.leave(&ticket, late, terms)
		switch p.judge(&ticket, failure{began: now, ended: time.Now(), late: true, delay: delay(n)}, terms) {
		case Busy:
			load++
		case Failed:
			choice++
		case Down:
			return load, choice, time.Since(began)
		}
		time.Sleep(pause)
	}
	return load, choice, 0
}

// Deadlines that this process notices late are its own load, and those around them; but a counter
// that has answered no call for ten seconds is out, however busy the process is.
func TestLateDeadlinesAreLoad(t *testing.T) {
	const slow, busy = 10 * time.Millisecond, 10 * time.Second // as docs/counters.md has it
	for name, row := range map[string]struct {
		delay  func(n int) time.Duration
		outage time.Duration // at the earliest; at the latest two calls later
		load   bool          // none but load until then
	}{
		"in time":               {func(int) time.Duration { return 0 }, 4 * aDeadline, false},
		"a little late":         {func(int) time.Duration { return slow }, 4 * aDeadline, false},
		"late":                  {func(int) time.Duration { return slow + 1 }, busy, true},
		"one of four is late":   {func(n int) time.Duration { return time.Duration(1-min(n%4, 1)) * 30 * time.Millisecond }, busy, true},
		"late for two seconds":  {func(n int) time.Duration { return time.Duration(1-min(n/8, 1)) * 30 * time.Millisecond }, 8*280*time.Millisecond + breakPause - 200*time.Millisecond, true},
		"a machine that slept":  {func(n int) time.Duration { return time.Duration(1-min(n, 1)) * time.Hour }, time.Hour + breakPause - 200*time.Millisecond, true},
		"quota of cpu, used up": {func(n int) time.Duration { return time.Duration(n%2) * 50 * time.Millisecond }, busy, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				load, choice, outage := times(t, new(part), 2*time.Hour, 200*time.Millisecond, row.delay)
				t.Logf("%d load, %d by choice, an outage after %s", load, choice, outage)
				require.GreaterOrEqual(t, outage, row.outage)
				require.LessOrEqual(t, outage, row.outage+3*breakPause/2)
				if row.load {
					require.Zero(t, choice)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := &part{answers: 1}
		p.starved = time.Now()
		ticket := ticket{holder: p.turns.force(Payer, "k")}
		require.Equal(t, Busy, p.judge(&ticket, failure{began: time.Now(), ended: time.Now(), late: true}, terms{aDeadline, 8}), "others were answered")
		p.breaker.note(time.Now())
		ticket.seen.answers = 1
		require.Equal(t, Busy, p.tired(&ticket, time.Now(), terms{aDeadline, 8}), "in the queue")
		time.Sleep(breakPause)
		require.Equal(t, Failed, p.tired(&ticket, time.Now(), terms{aDeadline, 8}))
	})
	synctest.Test(t, func(t *testing.T) {
		p := new(part)
		p.noteDelay(time.Second, terms{10 * time.Second, 8})
		require.False(t, p.isStarved(), "of ten seconds one explains nothing")
		p.noteDelay(2*time.Second, terms{10 * time.Second, 8})
		require.True(t, p.isStarved())
	})
}

// An engine that comes back late from a deadline that was noticed in time is dead all the same.
func TestAnEngineThatDawdlesIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{Counter: dawdling{}, Deadline: aDeadline, InFlight: 8}
		began := time.Now()
		outcome := Answered
		for outcome != Down {
			require.Less(t, time.Since(began), 3*time.Second)
			_, outcome, _ = g.Take(context.Background(), time.Now(), time.Now, Payer, exact.Call{Key: "k"})
			require.NotEqual(t, Busy, outcome)
		}
	})
}

// dawdling is a counter that says good-bye to a server that is dead.
type dawdling struct{ exact.Counter }

func (dawdling) Take(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
	<-ctx.Done()
	time.Sleep(4 * aDeadline)
	return exact.Verdict{}, ctx.Err()
}

// A bell that has not rung yet is as late as it is.
func TestABellIsAsLateAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), aDeadline)
		defer cancel()
		b := ringAt(ctx)
		require.Zero(t, b.delay())
		b.timer.Stop() // as if it had no turn
		time.Sleep(aDeadline + 30*time.Millisecond)
		require.Equal(t, 30*time.Millisecond, b.delay())
		b.rang.Store(int64(20 * time.Millisecond))
		require.Equal(t, 20*time.Millisecond, b.delay())
	})
}

// A call that has waited in vain says what became of those before it, and not that it may have been counted.
func TestSilenceHasAReason(t *testing.T) {
	require.ErrorIs(t, errSilent(nil), exact.ErrNotCounted)
	require.ErrorContains(t, errSilent(nil), context.DeadlineExceeded.Error())
	why := fmt.Errorf("http://10.0.0.8:9000: %w", exact.ErrMaybeCounted)
	require.ErrorIs(t, errSilent(why), exact.ErrNotCounted)
	require.NotErrorIs(t, errSilent(why), exact.ErrMaybeCounted)
	require.ErrorContains(t, errSilent(why), "http://10.0.0.8:9000")
}

// at is a request of this cost, by whatever limit.
func at(cost int64) func(uint8) int64 { return func(uint8) int64 { return cost } }

// note has a key be refused at a time, for a wait.
func note(r *Refusals, now time.Time, key Key, cost int64, wait time.Duration) bool {
	_, given := r.Look(now, key, at(cost))
	return r.Note(key, Refusal{Cost: cost, Said: now.UnixMicro(), Until: now.Add(wait).UnixMicro()}, given)
}

// left returns for how long a key is known to be refused.
func left(r *Refusals, now time.Time, key Key, cost int64) time.Duration {
	known, _ := r.Look(now, key, func(uint8) int64 { return cost })
	return known.Left(now)
}

func TestRefusalsAreRememberedUntilTheirTime(t *testing.T) {
	r, now := new(Refusals), breakerStart
	a, b := Key{15: 1}, Key{15: 2} // of one set
	note(r, now, a, 2, 10*time.Second)
	require.Equal(t, 10*time.Second, left(r, now, a, 2))
	require.Equal(t, 4*time.Second, left(r, now.Add(6*time.Second), a, 3))
	require.Zero(t, left(r, now, a, 1), "a cheaper request may pass")
	require.Zero(t, left(r, now, b, 2), "another key")
	require.Zero(t, left(r, now.Add(10*time.Second), a, 2))

	note(r, now, a, 1, 5*time.Second)
	require.Equal(t, 5*time.Second, left(r, now, a, 1))
	note(r, now, a, 1, 20*time.Second)
	require.Equal(t, 20*time.Second, left(r, now, a, 1), "the newest counts, in the place of the older")
	r.Forget(a)
	require.Zero(t, left(r, now, a, 9))
}

// A refusal is fresh for a while, and not before it was said.
func TestRefusalsAreFreshForAWhile(t *testing.T) {
	said := Refusal{Said: breakerStart.UnixMicro()}
	for at, fresh := range map[time.Duration]bool{
		-time.Microsecond: false, 0: true, Believed - time.Microsecond: true, Believed: false, -time.Hour: false, time.Hour: false,
	} {
		require.Equal(t, fresh, said.Fresh(breakerStart.Add(at), Believed), at)
	}
}

// What was given back after the look has the refusal not be noted, and of no other set.
func TestRefusalsAreNotNotedAfterARefund(t *testing.T) {
	r, now := new(Refusals), breakerStart
	a, elsewhere := Key{0: 1}, Key{0: 2}
	said := Refusal{Cost: 1, Said: now.UnixMicro(), Until: now.Add(time.Minute).UnixMicro()}
	_, given := r.Look(now, a, at(1))
	r.Forget(elsewhere)
	require.True(t, r.Note(a, said, given))
	_, given = r.Look(now, a, at(1))
	r.Forget(a)
	require.False(t, r.Note(a, said, given))
	require.Zero(t, left(r, now, a, 1))
	require.True(t, note(r, now, a, 1, time.Minute), "the next")
}

func TestRefusalsForgetTheOneThatEndsFirst(t *testing.T) {
	r, now := new(Refusals), breakerStart
	var keys [refusalWays + 1]Key
	for i := range keys {
		binary.BigEndian.PutUint64(keys[i][8:], uint64(i+1))
		note(r, now, keys[i], 1, time.Duration(10-i)*time.Second)
	}
	require.Zero(t, left(r, now, keys[refusalWays-1], 1), "ended first")
	require.Equal(t, 10*time.Second, left(r, now, keys[0], 1))
	require.Equal(t, time.Duration(10-refusalWays)*time.Second, left(r, now, keys[refusalWays], 1))
}

// One of many asks. The others wait until it knows, or for as long as it may take.
func TestOneOfManyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, key := new(Refusals), Key{1}
		for _, takes := range []time.Duration{time.Millisecond, time.Minute} {
			began := time.Now()
			answered := r.Ask(key, aDeadline)
			require.NotNil(t, answered)
			require.NotNil(t, r.Ask(Key{2}, aDeadline), "of another key")
			for range 9 {
				go func() {
					if r.Ask(key, aDeadline) != nil {
						t.Error("it asks too")
					}
					if waited := time.Since(began); waited != min(takes, aDeadline) {
						t.Error(waited)
					}
				}()
			}
			time.Sleep(takes)
			answered()
			synctest.Wait()
			delete(r.asked, Key{2})
			require.Empty(t, r.asked)
		}
	})
}
