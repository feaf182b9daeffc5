// SPDX-License-Identifier: Apache-2.0

// Package client is the polite client of a server limited by Tallystick: an
// [http.RoundTripper] that shows the server its tokens, pays with proof of work where that is
// asked for, and waits when it is told to wait.
//
//	api := http.Client{Transport: &client.Transport{}} // one for each account
//	resp, err := api.Get("https://api.example.com/quote")
//
// # What it does not do
//
// It gets no client past a limit. It saves a client from refusals for a token that it did
// not show, or a wait that it did not keep. A 429 with a challenge says that the server
// sells what lies beyond the limit. Then the client buys rather than waits; with MaxSolves
// below zero it waits.
//
// It never sends a request again that a server may have acted on, unless the method says that
// repeating does no harm. A refusal is one of three things; any other response, and every
// error of the network, goes to the caller as it came:
//
//	429                       with a Tallystick-Challenge or a Retry-After
//	403                       with a Tallystick-Challenge
//	503                       with a Retry-After, for GET, HEAD, OPTIONS, TRACE,
//	                          PUT and DELETE only
//
// The first two are trusted, whichever handler or proxy sent them. The methods in the last
// row may be repeated in any case (RFC 9110, section 9.2.2). A 503 can come from behind the
// limiter, after half the work was done. The problem type of its body,
// temporary-reduced-capacity, does not tell: others may use it as well.
//
// It never sends a body again that it cannot rewind. A request with a Body and without
// GetBody (anything but a bytes.Buffer, bytes.Reader or strings.Reader given to
// [http.NewRequest]) gets its refusal back, unchanged. The token in that refusal is kept, but
// a challenge cannot be answered: give such a request a GetBody, or send a small request
// first that buys the token.
//
// It does not check tokens. It has no key. It reads from a token only the policy and the
// tally ("aud", and "fam" or else "sub"), to know which older token it replaces. A token with
// a "fam" was bought.
//
// # What is sent to whom
//
// An origin is scheme, host and port (and the Host field, where a request sets one that
// differs from its URL). It gets up to four of the tokens that it has sent, each in a
// Tallystick-Token field of its own. First come the tokens that were last received on the
// same method and path, and among them the tokens of a tally that has something left. Then
// come the newest. No other origin ever gets them: a redirect is a new request to a
// RoundTripper, and its origin is looked at again. The answer to a challenge is sent in
// a Tallystick-Proof field, with the request that met the challenge a moment before. If that gets
// no answer, or a refusal without a challenge, the proof may still be good: until it expires, the
// next request of the same method and path shows it again.
//
// For each policy the newest token of each of up to three tallies is kept, so that a late
// answer to an earlier request does not cost what was bought. The newest token is the one in
// the answer to the request that was sent last. A fourth tally takes the place of a spent
// one, or else of the oldest.
//
// The caller manages a request that already has a Tallystick-Token or Tallystick-Proof field.
// Its fields are sent as they are (none, if the value is nil), nothing of its response is
// kept, no challenge to it is solved; only Retry-After is obeyed. Mind that http.Client
// copies fields set by hand to the next origin on a redirect, as it does with any field that
// it does not know to be secret.
//
// # Privacy
//
// A token does what a cookie does: it lets the server see that two requests come from the
// same client. It lives as long as the Transport, in memory only. A program that serves
// several accounts or customers needs a Transport for each: with one for all they would share
// a tally, and the server would learn that they belong together.
//
// Plain http is no special case. A token gives no access. A thief can use up its count. An
// eavesdropper that reads the token reads the request as well.
//
// # What a hostile server can cost
//
// For one request: three challenges of at most 2^28 expected hashes (each about half a minute
// of one core, and at most twice that), 30 seconds of obeying Retry-After, five sends, and 16
// KiB of each refusal read. All but the last is settable. A Transport solves one challenge at
// a time, whatever the number of requests, with at most Workers cores.
//
// A request among many may be sent as often again, to show what others bought: ten sends in
// all, however much room the server says there is. If what it sells is worth nothing, each
// request pays for itself in the end.
//
// In memory: the tokens of 256 origins, 16 for each, 512 bytes for each, so at most 3 MiB.
// Beyond that the least recently used origin goes first; an origin with thousands of policies
// only pushes out its own tokens.
//
// Reading a refusal, like any response, takes as long as its server likes to take: give
// requests a context with a deadline, or set http.Client.Timeout.
//
// Requests to servers you did not choose (a crawler, a webhook) are better sent with
// MaxSolves -1.
//
// # Many requests at once
//
// If requests that run in parallel meet challenges of the same origin under the same
// RateLimit-Policy, one of them pays and the others wait. The answer says how much room there
// is: the smallest r of its RateLimit field. That many are sent again. Then the first request
// that still waits is sent without a proof, to see today's price, and pays; and so on. So a
// thousand requests behind a quota of 20 buy 50 tallies, one after the other, and need a
// little more than two sends each. The server sets the price, which rises as it sells. Beyond
// MaxWork all requests that are left get their refusals back, with "too-much-work".
//
// A server in quiet mode does not say how much room there is. Then one request is sent again,
// and two more for each that is let in, until one is refused. The same happens if a window
// has ended and there is room after all.
//
// If the one that pays is cancelled or fails, the next one pays. If its proof buys no tally,
// because the server wants one for every single request, each pays for itself.
//
// No request waits for the same purchase longer than a challenge lives, counted from the last
// purchase that succeeded. After that it is sent again. A send that only shows what others
// bought does not count in MaxAttempts. After MaxAttempts such sends, a request pays for
// itself.
package client
