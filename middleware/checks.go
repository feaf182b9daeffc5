// SPDX-License-Identifier: Apache-2.0

package middleware

// A finding is one kind of trouble that the log tells of.
type finding uint8

const (
	// At New and Reconfigure.
	configured finding = iota
	limitIdle

	// Who is asking.
	identityUnknown
	identityAway
	tierUnknown
	limitsFailed
	portUnknown
	proxyUntrusted
	proxySuspected
	proxySilent
	proxyForgetful
	everybodyOne

	// What is carried.
	cookieDropped
	cookieInsecure
	fieldsLost
	writerBypassed

	// How the policy is mounted.
	policyMadeTwice
	policyTwice
	endpointsUnmounted
	newcomersOnGet
	costNegative

	// What instances disagree about.
	secretUnknown
	clockDiffers

	// How it goes.
	clockJumped
	memoryFull
	salesFull
	challengeFailed
	counterFailed
	counterSilent
	counterBack
	counterRefuses
	counterFull

	numFindings
)

// codes are the headings of docs/checks.md. They are stable: alerts are made of them.
var codes = [numFindings]string{
	configured:         "configured",
	limitIdle:          "limit-idle",
	identityUnknown:    "identity-unknown",
	identityAway:       "identity-unavailable",
	tierUnknown:        "tier-unknown",
	limitsFailed:       "limits-failed",
	portUnknown:        "port-unknown",
	proxyUntrusted:     "proxy-untrusted",
	proxySuspected:     "proxy-suspected",
	proxySilent:        "proxy-silent",
	proxyForgetful:     "proxy-forgetful",
	everybodyOne:       "everybody-one",
	cookieDropped:      "cookie-dropped",
	cookieInsecure:     "cookie-insecure",
	fieldsLost:         "fields-lost",
	writerBypassed:     "writer-bypassed",
	policyMadeTwice:    "policy-made-twice",
	policyTwice:        "policy-twice",
	endpointsUnmounted: "endpoints-unmounted",
	newcomersOnGet:     "newcomers-on-get",
	costNegative:       "cost-negative",
	secretUnknown:      "secret-unknown",
	clockDiffers:       "clock-differs",
	clockJumped:        "clock-jumped",
	memoryFull:         "memory-full",
	salesFull:          "sales-full",
	challengeFailed:    "challenge-failed",
	counterFailed:      "counter-failed",
	counterSilent:      "counter-down",
	counterBack:        "counter-back",
	counterRefuses:     "counter-refuses",
	counterFull:        "counter-full",
}

// checksPage is where each code is explained.
const checksPage = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"
