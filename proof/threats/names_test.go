// SPDX-License-Identifier: Apache-2.0

package threats_test

import "github.com/tallystick/tallystick/proof/handlers"

type (
	clock    = handlers.Clock
	option   = handlers.Option
	recorded = handlers.Recorded
	sink     = handlers.Sink
	site     = handlers.Site
	spy      = handlers.Spy
)

const (
	laneQuota = handlers.LaneQuota
)

var (
	admitted          = handlers.Admitted
	admittedWith      = handlers.AdmittedWith
	allModes          = handlers.AllModes
	allocated         = handlers.Allocated
	allocatedBy       = handlers.AllocatedBy
	bodyOf            = handlers.BodyOf
	boolToInt         = handlers.BoolToInt
	bought            = handlers.Bought
	byTier            = handlers.ByTier
	challengeIn       = handlers.ChallengeIn
	challenging       = handlers.Challenging
	claimsIn          = handlers.ClaimsIn
	clientAt          = handlers.ClientAt
	contact           = handlers.Contact
	cookieIn          = handlers.CookieIn
	costOf            = handlers.CostOf
	costing           = handlers.Costing
	encode            = handlers.Encode
	exhaustIn         = handlers.ExhaustIn
	fetched           = handlers.Fetched
	fixed             = handlers.Fixed
	fleet             = handlers.Fleet
	forgery           = handlers.Forgery
	from              = handlers.From
	genuine           = handlers.Genuine
	heap              = handlers.Heap
	hint              = handlers.Hint
	holding           = handlers.Holding
	hostile           = handlers.Hostile
	html              = handlers.HTML
	inParallel        = handlers.InParallel
	inTurn            = handlers.InTurn
	leastHashes       = handlers.LeastHashes
	limited           = handlers.Limited
	logTo             = handlers.LogTo
	method            = handlers.Method
	midnight          = handlers.Midnight
	mustIdentity      = handlers.MustIdentity
	mustURL           = handlers.MustURL
	newFlood          = handlers.NewFlood
	newLimiter        = handlers.NewLimiter
	newRequest        = handlers.NewRequest
	newSite           = handlers.NewSite
	noted             = handlers.Noted
	only              = handlers.Only
	opened            = handlers.Opened
	over              = handlers.Over
	path              = handlers.Path
	polite            = handlers.Polite
	proving           = handlers.Proving
	proxies           = handlers.Proxies
	proxyTo           = handlers.ProxyTo
	reader            = handlers.Reader
	record            = handlers.Record
	redeemed          = handlers.Redeemed
	refusedWithTicket = handlers.RefusedWithTicket
	requireHeader     = handlers.RequireHeader
	requireRetry      = handlers.RequireRetry
	requireStatus     = handlers.RequireStatus
	secret            = handlers.Secret
	send              = handlers.Send
	serve             = handlers.Serve
	showing           = handlers.Showing
	showingCookie     = handlers.ShowingCookie
	solve             = handlers.Solve
	solved            = handlers.Solved
	spend             = handlers.Spend
	spendShared       = handlers.SpendShared
	thief             = handlers.Thief
	ticketOf          = handlers.TicketOf
	ticketsOf         = handlers.TicketsOf
	tokenIn           = handlers.TokenIn
	waitCookieIn      = handlers.WaitCookieIn
	waiting           = handlers.Waiting
	wire              = handlers.Wire
	with              = handlers.With
)
