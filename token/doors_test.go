// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// An instance is one process, seen through both doors: a limiter with a codec, and a handler. Both have a memory of their own.
type instance struct {
	limiter *storeless.Limiter
	codec   *token.Codec
	handler http.Handler
	behind  time.Duration       // its clock
	decided middleware.Decision // by the handler
}

// A request is asked of both doors.
type request struct {
	user, shown string
	costs       []int64 // one, or one for each limit
	settled     []int64 // what it has cost in the end; below its cost there is a refund
}

func (q *request) refunds() bool { return slices.Compare(q.settled, q.costs) != 0 }

// listed writes numbers into a field, and numbers reads them.
func listed(list []int64) string { return strings.Trim(fmt.Sprint(list), "[]") }

func numbers(field string) (list []int64) {
	for s := range strings.FieldsSeq(field) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			panic(err)
		}
		list = append(list, n)
	}
	return list
}

// An outcome is the answer of a door.
type outcome struct {
	admitted, impossible bool
	limits               [storeless.MaxLimits]storeless.LimitStatus // before a refund
	tokenAccepted        bool
	token                string
}

// newInstance makes an instance; in units each limit but the first counts its own cost, which has its name.
func newInstance(t *testing.T, cfg storeless.Config, secrets [][]byte, now *time.Time, behind time.Duration, inUnits bool) *instance {
	in := &instance{behind: behind}
	in.limiter = kit.Must(storeless.New(cfg))(t)
	in.codec = kit.Must(token.New(cfg, secrets))(t)
	cost := func(i int) func(*http.Request) int64 {
		return func(r *http.Request) int64 { return numbers(r.Header.Get("Costs"))[i] }
	}
	units, of := []string{""}, map[string]middleware.Unit{}
	for i, l := range cfg.Limits {
		if inUnits && i > 0 {
			units, of[l.Name] = append(units, l.Name), middleware.Unit{Limits: []string{l.Name}, Cost: cost(i)}
		}
	}
	limit := kit.Must(middleware.New(middleware.Config{
		Policy: cfg.Policy, Limits: cfg.Limits, Secrets: secrets, MaxClients: cfg.MaxClients, TokenTransport: middleware.HeaderOnly,
		Identity: func(r *http.Request) (middleware.Identity, error) {
			return identityOf(r.Header.Get("User")), nil
		},
		Cost: cost(0), Units: of,
		OnDecision: func(_ context.Context, d middleware.Decision) { in.decided = d },
		Now:        func() time.Time { return now.Add(-behind) },
		Logger:     slog.New(slog.DiscardHandler),
	}))(t)
	in.handler = limit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		costs, settled := numbers(r.Header.Get("Costs")), numbers(r.Header.Get("Settled"))
		if slices.Compare(costs, settled) != 0 {
			*now = now.Add(3 * time.Second) // the work takes a while, and may end in another window
		}
		for i := range costs {
			if settled[i] < costs[i] {
				if err := middleware.Settle(r, settled[i], units[i]); err != nil {
					panic(err)
				}
			}
		}
	}))
	return in
}

// identityOf returns what middleware calls an identity, as the package documentation says.
func identityOf(user string) middleware.Identity {
	if key, ok := strings.CutPrefix(user, "k"); ok {
		return middleware.APIKey(key)
	}
	return middleware.Principal(strings.TrimPrefix(user, "p"))
}

// byHTTP asks the handler.
func (in *instance) byHTTP(q request) (o outcome) {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("User", q.user)
	r.Header.Set("Costs", listed(q.costs))
	r.Header.Set("Settled", listed(q.settled))
	if q.shown != "" {
		r.Header.Set(middleware.TokenHeader, q.shown)
	}
	w := httptest.NewRecorder()
	in.handler.ServeHTTP(w, r)
	o.admitted, o.impossible = in.decided.Admitted, in.decided.Reason == middleware.CostAboveQuota
	for i, s := range in.decided.Limits() {
		o.limits[i] = storeless.LimitStatus{Remaining: s.Remaining, Reset: s.Reset, Blocked: s.Blocked, Shadow: s.Shadow}
	}
	o.tokenAccepted, o.token = in.decided.Tokens > 0, w.Header().Get(middleware.TokenHeader)
	return o
}

// byHand asks the limiter and the codec.
func (in *instance) byHand(now *time.Time, q request) (o outcome, v storeless.Verdict) {
	identity, clock := q.user, now.Add(-in.behind)
	shown, err := in.codec.Verify(clock, identity, q.shown)
	o.tokenAccepted = err == nil
	peeked := in.limiter.Peek(clock, identity, shown, q.costs...)
	tally, v := in.limiter.Take(clock, identity, shown, q.costs...)
	if peeked.Admitted != v.Admitted || peeked.Wait != v.Wait || peeked.Impossible != v.Impossible {
		panic(fmt.Sprintf("Peek said %+v before %+v", peeked, v))
	}
	if v.Admitted && q.refunds() {
		*now = now.Add(3 * time.Second)
		var back []int64
		for i, cost := range q.costs {
			back = append(back, cost-q.settled[i])
		}
		tally = in.limiter.Refund(now.Add(-in.behind), clock, identity, tally, back...)
	}
	o.admitted, o.impossible, o.limits, o.token = v.Admitted, v.Impossible, v.Limits, in.codec.Sign(identity, tally)
	return o, v
}

// The engine has two doors, and says the same at both: whatever clients show, on whichever instance.
func TestBothDoorsSayTheSame(t *testing.T) {
	limit := func(a storeless.Algorithm, quota int64, window, seconds time.Duration, burst int64) storeless.Limit {
		return storeless.Limit{Name: fmt.Sprintf("%s-%d", a, window), Algorithm: a, Quota: quota, Window: window * seconds, Burst: burst}
	}
	shadow := limit(storeless.FixedWindow, 6, 1, time.Minute, 0)
	shadow.Name, shadow.Shadow = "shadow", true
	policies := map[string][]storeless.Limit{
		"one":     {limit(storeless.SlidingWindow, 5, 1, time.Minute, 0)},
		"nested":  {limit(storeless.SlidingWindow, 5, 1, time.Minute, 0), limit(storeless.FixedWindow, 40, 1, time.Hour, 0)},
		"buckets": {limit(storeless.TokenBucket, 30, 1, time.Minute, 8), limit(storeless.LeakyBucket, 50, 1, time.Minute, 0)},
		"all": {
			limit(storeless.SlidingWindow, 9, 1, time.Minute, 0), limit(storeless.FixedWindow, 100, 1, time.Hour, 0),
			limit(storeless.TokenBucket, 20, 1, time.Minute, 7), shadow,
		},
	}
	policies["units"] = []storeless.Limit{
		limit(storeless.SlidingWindow, 9, 1, time.Minute, 0), limit(storeless.TokenBucket, 300, 1, time.Minute, 90), limit(storeless.FixedWindow, 2000, 1, time.Hour, 0),
	}
	secrets := [][]byte{[]byte("one of the two, and long enough!"), []byte("another of two, as long as that!")}
	rotated := [][]byte{secrets[1], secrets[0]}
	said := map[string]int{}
	for name, limits := range policies {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(len(name)), 38))
			now := time.Unix(1_700_000_000, 0)
			cfg := storeless.Config{Policy: name, Limits: limits, MaxClients: 64}
			inUnits := name == "units"
			fleet := []*instance{
				newInstance(t, cfg, secrets, &now, 0, inUnits), newInstance(t, cfg, rotated, &now, 2*time.Second, inUnits), newInstance(t, cfg, secrets, &now, 0, inUnits),
			}
			users := []string{"palice", "pbob", "kalice", "p" + strings.Repeat("dan", 85)}
			wallets := map[string][]string{} // all tokens that a user was sent
			for range 2500 {
				now = now.Add(time.Duration(r.Int64N(int64(7 * time.Second)))).Truncate(time.Microsecond)
				if r.IntN(50) == 0 {
					now = now.Add(time.Duration(r.Int64N(int64(10 * time.Minute)))).Truncate(time.Microsecond)
				}
				in, user := fleet[r.IntN(len(fleet))], users[r.IntN(len(users))]
				q := request{user: user, costs: []int64{[]int64{0, 1, 1, 1, 1, 2, 3, 11}[r.IntN(8)]}}
				if inUnits {
					q.costs = []int64{1 + r.Int64N(3), r.Int64N(100), r.Int64N(200)} // at 0 a request is a peek by HTTP
				}
				q.settled = slices.Clone(q.costs)
				for i, cost := range q.costs {
					if cost > 0 && r.IntN(5) == 0 {
						q.settled[i] = r.Int64N(cost)
					}
				}
				how := []string{"newest", "newest", "newest", "none", "old", "foreign", "forged"}[r.IntN(7)]
				switch wallet := wallets[user]; {
				case how == "none" || len(wallet) == 0:
				case how == "newest":
					q.shown = wallet[len(wallet)-1]
				case how == "old":
					q.shown = wallet[r.IntN(len(wallet))]
				case how == "foreign":
					if other := wallets[users[r.IntN(len(users))]]; len(other) > 0 {
						q.shown = other[len(other)-1]
					}
				case how == "forged":
					b := []byte(wallet[len(wallet)-1])
					b[r.IntN(len(b))] ^= 1
					q.shown = string(b)
				}

				if slices.ContainsFunc(limits, func(l storeless.Limit) bool { return l.Shadow }) {
					q.settled = q.costs // only the handler knows, when it gives back, what a shadow without room has not counted
				}

				began := now
				byHand, verdict := in.byHand(&now, q)
				now = began
				byHTTP := in.byHTTP(q)

				if byHTTP.token == "" && (!byHand.admitted || slices.Max(q.costs) == 0) {
					byHTTP.token = byHand.token // the client knows as much
				}
				require.Equal(t, byHTTP, byHand, "%+v, shown: %s", q, how)
				if wait := in.decided.RetryAfter; verdict.Wait > 0 { // it is jittered upwards
					require.GreaterOrEqual(t, wait, verdict.Wait)
					require.LessOrEqual(t, wait, verdict.Wait+max(verdict.Wait/10, time.Second))
				}
				if byHand.token != "" {
					wallets[user] = append(wallets[user], byHand.token)
				}
				said[how]++
				said["admitted "+strconv.FormatBool(byHand.admitted)]++
				said["accepted "+strconv.FormatBool(byHand.tokenAccepted)]++
				if byHand.admitted && q.refunds() {
					said["refunded"]++
				}
			}
		})
	}
	for _, what := range []string{"admitted true", "admitted false", "accepted true", "accepted false", "refunded"} {
		require.Greater(t, said[what], 500, "%s: the walk has met too little of it: %v", what, said)
	}
}
