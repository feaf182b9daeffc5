// SPDX-License-Identifier: Apache-2.0

package bounds_test

import "github.com/tallystick/tallystick/proof/handlers"

type (
	altered  = handlers.Altered
	clock    = handlers.Clock
	logged   = handlers.Logged
	option   = handlers.Option
	recorded = handlers.Recorded
	site     = handlers.Site
	spy      = handlers.Spy
)

var (
	address       = handlers.Address
	admitted      = handlers.Admitted
	allModes      = handlers.AllModes
	allowed       = handlers.Allowed
	bought        = handlers.Bought
	challengeIn   = handlers.ChallengeIn
	challenging   = handlers.Challenging
	check         = handlers.Check
	claimsIn      = handlers.ClaimsIn
	codesIn       = handlers.CodesIn
	contact       = handlers.Contact
	costOf        = handlers.CostOf
	costing       = handlers.Costing
	costs         = handlers.Costs
	decided       = handlers.Decided
	fetched       = handlers.Fetched
	fleet         = handlers.Fleet
	from          = handlers.From
	inAllModes    = handlers.InAllModes
	inParallel    = handlers.InParallel
	inTurn        = handlers.InTurn
	leastHashes   = handlers.LeastHashes
	limited       = handlers.Limited
	logTo         = handlers.LogTo
	login         = handlers.Login
	metered       = handlers.Metered
	midnight      = handlers.Midnight
	never         = handlers.Never
	newLedger     = handlers.NewLedger
	newLimiter    = handlers.NewLimiter
	newRequest    = handlers.NewRequest
	newSite       = handlers.NewSite
	paid          = handlers.Paid
	peeked        = handlers.Peeked
	problemIn     = handlers.ProblemIn
	proving       = handlers.Proving
	random        = handlers.Random
	record        = handlers.Record
	redeemed      = handlers.Redeemed
	requireStatus = handlers.RequireStatus
	secret        = handlers.Secret
	send          = handlers.Send
	settles       = handlers.Settles
	settling      = handlers.Settling
	showing       = handlers.Showing
	sites         = handlers.Sites
	solve         = handlers.Solve
	solved        = handlers.Solved
	tokenIn       = handlers.TokenIn
	tokenOf       = handlers.TokenOf
	visitor       = handlers.Visitor
	with          = handlers.With
)
