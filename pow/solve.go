// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync/atomic"
)

const (
	// defaultCap is 1024 challenges of the default price. It is as far as a price may
	// rise for an honest client: about a minute of one thread of a browser, in the five
	// minutes that a challenge may live; half a minute of one core here, and far from a
	// stolen afternoon.
	defaultCap = 1024 * DefaultWork

	// stretch is how many candidates a worker tries between two looks at the
	// context: a third of a millisecond natively, some milliseconds under WASM.
	stretch = 4096
)

// SolveOptions are the solver's own limits. The zero value is usable.
type SolveOptions struct {
	// MaxWork is the highest price, in expected hashes, that is paid. Zero means
	// 2^28, never "any": a server one does not trust sets the price.
	MaxWork uint64
	// Workers is the number of goroutines. Below one it is GOMAXPROCS; more than
	// there are puzzles (8) are of no use and not started.
	Workers int
	// Progress, if not nil, is called on the goroutine that called Solve, with
	// candidates ruled out and candidates in all. The first never falls, and
	// equals the second in the last call before success. Calls may be skipped; a
	// slow Progress does not hold up the workers.
	Progress func(done, total uint64)
}

// Solve finds the answers to a challenge and returns the proof to send. It
// returns when it has them, when ctx is done, or when the candidates run out,
// after twice [Challenge.Work] hashes at the latest; no goroutine outlives it. It
// does not read a clock: give ctx a deadline of [Challenge.TTL] to stop when
// there is no point in going on.
//
// Errors: [ErrMalformed] and [ErrTooMuchWork] before the first hash,
// [ErrUnsolvable], or the error of ctx.
func Solve(ctx context.Context, challenge string, o SolveOptions) (string, error) {
	var h header
	var buf [maxRaw]byte
	raw, err := h.decode(&buf, challenge)
	if err != nil {
		return "", err
	}
	limit := o.MaxWork
	limit = cmp.Or(limit, defaultCap)
	if work := workOf(h.k, h.span); work > limit {
		return "", fmt.Errorf("%w: %d expected hashes, cap %d", ErrTooMuchWork, work, limit)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	numbers := make([]uint32, h.k)
	if h.k > 0 {
		s := &solver{
			seed:    sha256.Sum256(raw[:headerLen]),
			targets: raw[headerLen : len(raw)-macLen],
			span:    h.span,
			numbers: numbers,
			pulse:   make(chan struct{}, 1),
		}
		if err := s.run(ctx, o); err != nil {
			return "", err
		}
	}
	return string(appendProof(make([]byte, 0, maxProofLen), challenge, numbers)), nil
}

// solver hands whole puzzles to workers. Splitting one puzzle among them would
// use the last core a little better and make every solver, in every language,
// a scheduler of ranges; others got that wrong on odd numbers of cores.
type solver struct {
	seed    [sha256.Size]byte
	targets []byte
	span    uint32

	next    atomic.Uint32 // the queue: the next free puzzle
	live    atomic.Int32  // workers
	done    atomic.Uint64 // candidates ruled out
	found   atomic.Uint32 // puzzles answered
	numbers []uint32      // by puzzle, each written by the worker that took it
	pulse   chan struct{} // "done has changed"; closed by the last worker
}

func (s *solver) run(parent context.Context, o SolveOptions) error {
	ctx, cancel := context.WithCancel(parent)
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, len(s.numbers))
	s.live.Store(int32(workers))
	for range workers {
		go s.work(ctx, cancel)
	}
	// Also when Progress panics: stop the workers and wait for the last one.
	defer func() {
		cancel()
		for range s.pulse {
		}
	}()
	total := uint64(len(s.numbers)) * uint64(s.span)
	for range s.pulse {
		if o.Progress != nil {
			o.Progress(s.done.Load(), total)
		}
	}
	if int(s.found.Load()) == len(s.numbers) {
		return nil
	}
	if err := parent.Err(); err != nil {
		return err
	}
	return ErrUnsolvable
}

// work takes puzzles until there are none. A puzzle without an answer cancels
// the others: the proof needs all.
func (s *solver) work(ctx context.Context, cancel context.CancelFunc) {
	defer func() {
		if s.live.Add(-1) == 0 {
			close(s.pulse)
		}
	}()
	for {
		i := s.next.Add(1) - 1
		if int(i) >= len(s.numbers) {
			return
		}
		if !s.puzzle(ctx, i) {
			cancel()
			return
		}
	}
}

// puzzle answers puzzle i, or reports false.
func (s *solver) puzzle(ctx context.Context, i uint32) bool {
	m := newMessage(&s.seed, i)
	target := s.targets[i*targetLen:][:targetLen]
	for from := uint32(0); from < s.span; {
		if ctx.Err() != nil {
			return false
		}
		to := from + min(stretch, s.span-from)
		n, ok := m.search(target, from, to)
		if ok {
			s.numbers[i] = n
			s.found.Add(1)
			s.advance(s.span - from)
			return true
		}
		s.advance(to - from)
		from = to
	}
	return false
}

// advance counts candidates and wakes the caller, if it is not awake already.
func (s *solver) advance(n uint32) {
	s.done.Add(uint64(n))
	select {
	case s.pulse <- struct{}{}:
	default:
	}
}
