// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// These types are the file. Reader, schema and the table in docs/policyfile.md are made of
// them. A field has the name, and but for pointers the type, of the field of
// middleware.Config that it sets. Its tags are
//
//	json      the key: the field's name, with a small first letter
//	validate  what go-playground/validator checks; a name in forms is a rule too
//	file      "apart": it sets no field of its name by itself
//	doc       what it is, for the schema and the page
//
// A pointer is nil where the key is left out: a zero that is written is a value, and checked.

type fileKeys struct {
	Schema   *string                `json:"$schema" doc:"the address of the schema, for editors"`
	Secrets  *secretKeys            `json:"secrets" doc:"where the secrets of all policies are"`
	Identity *identityKeys          `json:"identity" doc:"who is asking, unless the policy says it"`
	Policies map[string]*policyKeys `json:"policies" validate:"required,min=1,dive,keys,policy,endkeys,required" doc:"the policies, by name"`
}

type secretKeys struct {
	Env  *string `json:"env" validate:"required_without=File,excluded_with=File,omitempty,env" doc:"holds one secret a line"`
	File *string `json:"file" validate:"omitempty,filename" doc:"holds one secret a line"`
}

type identityKeys struct {
	From    *source  `json:"from" validate:"required" doc:"where a client's address comes from"`
	Header  *string  `json:"header" validate:"omitempty,field" doc:"the field, where from is header or insecure-no-peer"`
	Trusted []string `json:"trusted" validate:"omitempty,min=1,max=1000,dive,network" doc:"the proxies that are believed"`
}

type policyKeys struct {
	Limits         []limitKeys                `json:"limits" validate:"required,min=1,max=8,dive" doc:"the limits, decided together"`
	Secrets        *secretKeys                `json:"secrets" file:"apart" doc:"where the secrets of this policy are"`
	Tiers          map[string]*tierKeys       `json:"tiers" file:"apart" validate:"omitempty,min=1,dive,keys,tier,endkeys,required" doc:"limits by the tier of the identity"`
	Units          map[string]*unitKeys       `json:"units" file:"apart" validate:"omitempty,min=1,dive,keys,name,endkeys,required" doc:"what some limits count in place of the cost of a request, by name"`
	LimitsFor      *limitsForKeys             `json:"limitsFor" doc:"how answers of the program's function are kept"`
	Instances      *int64                     `json:"instances" validate:"omitempty,min=1,max=1048576" doc:"about how many instances serve"`
	Identity       *identityKeys              `json:"identity" file:"apart" doc:"who is asking"`
	TokenTransport *middleware.TokenTransport `json:"tokenTransport" doc:"how tokens travel"`
	MaxClients     *int                       `json:"maxClients" validate:"omitempty,min=1,max=16777216" doc:"for how many active clients the memory is made"`
	Challenge      *challengeKeys             `json:"challenge" doc:"clients are asked for work"`
	Exact          *exactKeys                 `json:"exact" doc:"a counter of all instances decides"`
	Concurrency    *concurrencyKeys           `json:"concurrency" doc:"bounds requests that are served at once"`
	ByOutcome      *byOutcomeKeys             `json:"byOutcome" doc:"some limits count by outcome"`
	Quiet          *bool                      `json:"quiet" doc:"responses hide the quota"`
	Fields         []middleware.Fields        `json:"fields" validate:"omitempty,min=1,max=4" doc:"which response fields say how the limits stand"`
	Shadow         *bool                      `json:"shadow" doc:"it decides and counts, and never refuses"`
	Advanced       *advancedKeys              `json:"advanced" doc:"answers to attacks and rare needs"`
}

type limitKeys struct {
	Name      *string              `json:"name" validate:"omitempty,name" doc:"the count follows the name"`
	Algorithm *storeless.Algorithm `json:"algorithm" doc:"sliding-log and rolling-day need an exact counter"`
	Quota     *int64               `json:"quota" validate:"required,min=1,max=2147483647" doc:"how much may pass in a window"`
	Window    *time.Duration       `json:"window" validate:"required_without=Calendar" doc:"whole seconds, up to 8784h"`
	Calendar  *string              `json:"calendar" validate:"omitempty,calendar" doc:"in place of a window"`
	Zone      *string              `json:"zone" validate:"omitempty,zone" doc:"of a calendar; default UTC"`
	Burst     *int64               `json:"burst" validate:"omitempty,min=1,max=2147483647" doc:"how much a token-bucket lets pass at once"`
	Shadow    *bool                `json:"shadow" doc:"on trial: it refuses no request"`
}

type tierKeys struct {
	Limits []limitKeys `json:"limits" validate:"required,min=1,max=8,dive" doc:"the same limits with other quotas and bursts"`
}

type unitKeys struct {
	Limits []string `json:"limits" validate:"required,min=1,max=8,dive,name" doc:"the names of these limits"`
}

type challengeKeys struct {
	Mode          *middleware.Mode `json:"mode" doc:"when work is asked for"`
	BusyPerSecond *int64           `json:"busyPerSecond" validate:"omitempty,min=0,max=1000000" doc:"admitted requests a second at which when-busy begins; 0: not set"`
	BusyAtOnce    *int64           `json:"busyAtOnce" validate:"omitempty,min=0,max=1000000" doc:"requests under way at which when-busy begins; 0: not set"`
	Work          *int64           `json:"work" validate:"omitempty,min=16,max=536870912" doc:"the price, in expected hashes"`
	NonceOnly     *bool            `json:"nonceOnly" doc:"every-request without work, by a round trip alone"`
	Crowd         *int64           `json:"crowd" validate:"omitempty,min=1,max=255" doc:"how many honest clients an address hides"`
	SalesPerHour  *int64           `json:"salesPerHour" validate:"omitempty,min=1,max=100000" doc:"how many sales to an address leak away in an hour"`
	PassTime      *time.Duration   `json:"passTime" doc:"of a longer limit a bought tally has the part that falls on this: whole seconds, 1m to 24h"`
	BindOwn       *bool            `json:"bindOwn" doc:"a bought tally is bound to its address"`
	WaitingRoom   *int64           `json:"waitingRoom" validate:"omitempty,min=1,max=2147483647" doc:"its part of each quota, 1/n, for people whose browser cannot work"`
	NoWaitingRoom *bool            `json:"noWaitingRoom" doc:"no waiting room"`
	Path          *string          `json:"path" validate:"omitempty,path" doc:"where the endpoints are mounted"`
}

type exactKeys struct {
	Counter     *string            `json:"counter" file:"apart" validate:"omitempty,name" doc:"the counter's name in the program"`
	Outage      *middleware.Outage `json:"outage" doc:"what happens while the counter does not answer"`
	Contended   *middleware.Outage `json:"contended" doc:"what happens to a call that lost all its races"`
	Deadline    *time.Duration     `json:"deadline" doc:"how long a request waits for the counter, 1ms to 10s"`
	InFlight    *int64             `json:"inFlight" validate:"omitempty,min=1,max=65536" doc:"how many calls may wait for the counter"`
	PayingTiers []string           `json:"payingTiers" validate:"omitempty,min=1,max=1000,dive,tier" doc:"the tiers that pay; all others are strangers"`
}

type concurrencyKeys struct {
	Max        *int           `json:"max" validate:"omitempty,min=1,max=10000" doc:"how many requests of one tally are served at once"`
	Tiers      map[string]int `json:"tiers" validate:"omitempty,min=1,dive,keys,tier,endkeys,min=1,max=10000" doc:"the same, by tier"`
	MaxHold    *time.Duration `json:"maxHold" doc:"how long a request counts at most: whole seconds, 2s to 1h"`
	CancelHeld *bool          `json:"cancelHeld" doc:"a request ends after maxHold"`
}

type limitsForKeys struct {
	Life      *time.Duration `json:"life" doc:"how long an answer is good"`
	Deadline  *time.Duration `json:"deadline" doc:"how long a request waits for an answer"`
	Customers *int           `json:"customers" validate:"omitempty,min=1,max=1048576" doc:"how many customers' answers are kept"`
}

type byOutcomeKeys struct {
	Limits []string `json:"limits" validate:"omitempty,min=1,max=8,dive,name" doc:"the names of these limits"`
	Free   []int    `json:"free" validate:"omitempty,max=400,dive,min=200,max=599" doc:"the statuses that do not count"`
}

type advancedKeys struct {
	Net56Factor      *int64 `json:"net56Factor" validate:"omitempty,min=1,max=2147483647" doc:"how many quotas a whole IPv6 /56 may use"`
	Net48Factor      *int64 `json:"net48Factor" validate:"omitempty,min=1,max=2147483647" doc:"how many quotas a whole IPv6 /48 may use"`
	EmbeddedCookie   *bool  `json:"embeddedCookie" doc:"the cookie works in frames of other sites"`
	InsecureCookie   *bool  `json:"insecureCookie" doc:"the cookie works over plain HTTP, for development"`
	InsecureNoMemory *bool  `json:"insecureNoMemory" doc:"no memory: only honest clients are limited"`
}
