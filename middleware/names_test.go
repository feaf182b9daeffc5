// SPDX-License-Identifier: Apache-2.0

package middleware_test

import "github.com/tallystick/tallystick/proof/handlers"

type (
	altered = handlers.Altered
	clock   = handlers.Clock
	ledger  = handlers.Ledger
	option  = handlers.Option
	problem = handlers.Problem
	sink    = handlers.Sink
	site    = handlers.Site
	spy     = handlers.Spy
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
	hint              = handlers.Hint
	holding           = handlers.Holding
	html              = handlers.HTML
	inAllModes        = handlers.InAllModes
	inParallel        = handlers.InParallel
	inTurn            = handlers.InTurn
	limited           = handlers.Limited
	logTo             = handlers.LogTo
	login             = handlers.Login
	metered           = handlers.Metered
	method            = handlers.Method
	midnight          = handlers.Midnight
	mustIdentity      = handlers.MustIdentity
	newLedger         = handlers.NewLedger
	newLimiter        = handlers.NewLimiter
	newSite           = handlers.NewSite
	noted             = handlers.Noted
	only              = handlers.Only
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
	with              = handlers.With
)
