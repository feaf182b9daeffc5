// SPDX-License-Identifier: Apache-2.0

// Package refusallog tells an operator who is refused, in one line a minute for each policy:
// how many requests were refused and why, by about how many clients, and which of them most
// often. It is for [middleware.Config].OnDecision:
//
//	refusals := refusallog.New(refusallog.Config{})
//	cfg.OnDecision = refusals.OnDecision
//
// Its limits first:
//
//   - Clients have pseudonyms, see [middleware.Decision.Pseudonym]: no line holds an address, a
//     key, or anything else that a client has sent.
//   - It is no audit log: of each minute it keeps counts, and drops the rest. An attack cannot
//     fill a disk with it, or a memory: each policy takes some 20 KB, however many are refused.
//   - The first refusal after a quiet minute is logged at once. What follows within the minute is
//     logged at the first decision after it: there is no goroutine and no timer. If no request
//     comes any more, [Log.Flush] logs it.
//   - How many clients there were is an estimate, good to 5 % or so. Which were refused most is
//     kept by the Space-Saving algorithm (Metwally and others, 2005): a client with more than
//     1/128 of a minute's refusals is never missed, and its count is never too high.
package refusallog
