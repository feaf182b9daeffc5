package client

import (
	"context"
	"net/http"

	"github.com/tallystick/tallystick/pow"
)

// prove gets the request what its next send needs: a proof of its own, or a token
// that another request has bought since. The context ends with the challenge. A
// reason means that the challenge has no answer.
func (x *exchange) prove(ctx context.Context, m move) (Reason, error) {
	x.kind = m.kind
	if x.shared && m.status == http.StatusForbidden {
		// It has shown what another bought and is asked for a proof still: here a
		// proof buys one request. (429 means that the token was good and is spent.)
		x.alone = true
	}
	x.shared = false
	if x.buying == nil && !x.alone {
		if x.shared = x.share(ctx); x.shared {
			return "", nil
		}
	}
	// One challenge at a time: two in parallel are not quicker, only both late.
	if err := x.t.solver.take(ctx); err != nil {
		return "", err
	}
	defer x.t.solver.pass()
	x.solves++
	proof, err := pow.Solve(ctx, m.challenge.Text, pow.SolveOptions{MaxWork: x.t.maxWork(), Workers: x.t.Workers})
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return BadChallenge, nil
	}
	x.proof, x.answered = proof, m.challenge.Text
	return "", nil
}

// share reports whether there is a token to show that was bought after the last
// send. If one is being bought, it waits for it. Otherwise the request is to pay
// itself: with x.buying for all that wait, or with x.alone for itself.
func (x *exchange) share(ctx context.Context) bool {
	for {
		if x.bought() {
			return true
		}
		b, starts := x.t.purchases.join(want{x.origin, x.kind})
		if starts {
			x.buying = b
			// The one before may have ended between the two calls above.
			if x.bought() {
				x.finish(false)
				return true
			}
			return false
		}
		select {
		case <-b.done:
			if b.paid && !x.bought() {
				x.alone = true // it was served and got no token: nothing to share
				return false
			}
		case <-ctx.Done():
			x.alone = true // what takes this long is not worth another wait
			return false
		}
	}
}

func (x *exchange) bought() bool {
	return x.t.jar.boughtSince(x.origin, x.kind, x.sent)
}
