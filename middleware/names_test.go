// SPDX-License-Identifier: Apache-2.0

package middleware_test

import "github.com/tallystick/tallystick/proof/handlers"

type (
	altered  = handlers.Altered
	clock    = handlers.Clock
	ledger   = handlers.Ledger
	logged   = handlers.Logged
	option   = handlers.Option
	problem  = handlers.Problem
	recorded = handlers.Recorded
	sink     = handlers.Sink
	site     = handlers.Site
	spy      = handlers.Spy
)

const (
	laneQuota = handlers.LaneQuota
	patient   = handlers.Patient
)

var (
	address           = handlers.Address
	admitted          = handlers.Admitted
	admittedWith      = handlers.AdmittedWith
	allModes          = handlers.AllModes
	allocated         = handlers.Allocated
	allocatedBy       = handlers.AllocatedBy
	allowed           = handlers.Allowed
	bodyOf            = handlers.BodyOf
	boolToInt         = handlers.BoolToInt
	bought            = handlers.Bought
	byTier            = handlers.ByTier
	challengeIn       = handlers.ChallengeIn
	challenging       = handlers.Challenging
	check             = handlers.Check
	claimsIn          = handlers.ClaimsIn
	clientAt          = handlers.ClientAt
	codesIn           = handlers.CodesIn
	contact           = handlers.Contact
	cookieIn          = handlers.CookieIn
	costOf            = handlers.CostOf
	costing           = handlers.Costing
	costs             = handlers.Costs
	counting          = handlers.Counting
	decided           = handlers.Decided
	exhaust           = handlers.Exhaust
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
	inAllModes        = handlers.InAllModes
	inParallel        = handlers.InParallel
	inTurn            = handlers.InTurn
	limited           = handlers.Limited
	logTo             = handlers.LogTo
	login             = handlers.Login
	mainOf            = handlers.Main
	metered           = handlers.Metered
	method            = handlers.Method
	midnight          = handlers.Midnight
	mustIdentity      = handlers.MustIdentity
	mustURL           = handlers.MustURL
	newFlood          = handlers.NewFlood
	newLedger         = handlers.NewLedger
	newLimiter        = handlers.NewLimiter
	newRequest        = handlers.NewRequest
	newSite           = handlers.NewSite
	noted             = handlers.Noted
	only              = handlers.Only
	opened            = handlers.Opened
	over              = handlers.Over
	paid              = handlers.Paid
	path              = handlers.Path
	peeked            = handlers.Peeked
	polite            = handlers.Polite
	problemIn         = handlers.ProblemIn
	proving           = handlers.Proving
	proxies           = handlers.Proxies
	proxyTo           = handlers.ProxyTo
	random            = handlers.Random
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
	settles           = handlers.Settles
	settling          = handlers.Settling
	showing           = handlers.Showing
	showingCookie     = handlers.ShowingCookie
	sites             = handlers.Sites
	solve             = handlers.Solve
	solved            = handlers.Solved
	spend             = handlers.Spend
	spendShared       = handlers.SpendShared
	thief             = handlers.Thief
	ticketOf          = handlers.TicketOf
	ticketsOf         = handlers.TicketsOf
	tokenIn           = handlers.TokenIn
	tokenOf           = handlers.TokenOf
	visitor           = handlers.Visitor
	waitCookieIn      = handlers.WaitCookieIn
	waiting           = handlers.Waiting
	wire              = handlers.Wire
	with              = handlers.With
)
