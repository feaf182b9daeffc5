// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/lookup"
	"github.com/tallystick/tallystick/middleware/internal/ticket"
)

// An engine is a compiled [Config], and immutable: all that the steps of a decision
// need, and nothing that they do.
type engine struct {
	name       string // of the policy
	base       tier
	tiers      map[string]*tier
	codec      *token.Codec
	pseudonyms *pseudonymKey
	memory     *limiter.Memory     // nil if switched off
	peers      *gossip.Records     // nil: it counts alone
	forgets    bool                // it is switched off
	hearing    bool                // instances hear each other
	tokenCache *limiter.TokenCache // nil: all tokens are read
	carried    *limiter.Policy     // what tokens carry: the limits, and more on an exact route
	life       time.Duration       // of what is signed
	instances  int64

	challenge    *challenger   // nil: never
	room         *waitingRoom  // nil: none
	exact        *exactCounter // nil: token and memory decide
	gate         *gate         // nil: any number at once
	outcomes     *outcomes     // nil: no limit counts by outcome
	customLimits *customLimits // nil: none has limits of its own
	units        []unit        // that some limits count in place of Config.Cost
	freeStatuses []int         // statuses that these limits do not count

	hooks  hooks
	bodies *sync.Pool // of refusals
	now    func() time.Time

	transport transport
	shadow    bool

	tokens *tokenCounts
	checks *checks
}

// hooks are what the program has a policy call.
type hooks struct {
	identity   IdentityFunc
	cost       func(*http.Request) int64 // nil: 1
	skip       func(*http.Request) bool  // nil: none
	refused    http.Handler              // nil: built in
	page       http.Handler              // nil: built in
	onDecision func(context.Context, Decision)
}

// hear reports whether the program has a hook that hears of refusals.
func (h *hooks) hear() bool { return h.onDecision != nil || h.refused != nil || h.page != nil }

// A transport says by which fields tokens and limits go between a policy and its clients.
type transport struct {
	kind             TokenTransport
	quiet            bool
	fields           Fields
	cookieName       string
	cookieAttributes string
	cookieSuffixes   []string // of the further cookies of the policy
	embedded         bool     // in other sites' frames
}

// The further cookies of a policy are named as its token's cookie, and a suffix. No
// policy has a dot in its name: they are no cookies of another policy. Each proof has a
// cookie of its own: of two pages that are checked before either is sent, the second
// would take the proof of the first. The cookie of keptSuffix says nothing: a browser that
// brings it back keeps cookies.
const (
	proofSuffix = ".proof." // and eight digits of the challenge
	proofDigits = "########"
	roomSuffix  = ".wait"
	keptSuffix  = ".kept"
)

// A waitingRoom is the compiled waiting room of a policy.
type waitingRoom struct {
	codec   *token.Codec
	memory  *limiter.Memory
	tickets ticket.Keys
	uses    *ticket.Uses
}

// An exactCounter is a compiled [Exact].
type exactCounter struct {
	Exact
	guard    guardedcall.Guard
	refusals guardedcall.Refusals
	stamp    int // the index in tallies of what the counter has refused

	lateRefunds atomic.Uint64
}

// consequence says what an outage means for requests: of a counter with several parts, for the keys of one.
func (x *exactCounter) consequence() string {
	of := ""
	if x.guard.Divided() {
		of = " for the keys of one part"
	}
	if x.Outage == FailClosed {
		return "requests" + of + " are refused until it does"
	}
	return "each instance decides" + of + " by its tokens and memory until it does"
}

// customLimits are the compiled [LimitsFor]: the customers with limits of their own.
type customLimits struct {
	LimitsFor
	cfg     Config // from which their limits are compiled; without secrets
	late    []int  // the limits that count by outcome
	answers *lookup.Table[customer, ownLimits]

	mu    sync.Mutex
	tiers map[string]*tier // by tier and numbers: most customers share theirs
}
