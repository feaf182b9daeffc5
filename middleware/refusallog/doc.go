// SPDX-License-Identifier: Apache-2.0

// Package refusallog logs refusals, in one line a minute for each policy: how many requests
// were refused and why, of about how many clients, and which most often. It is for
// [middleware.Config].OnDecision:
//
//	refusals := refusallog.New(refusallog.Config{})
//	cfg.OnDecision = refusals.OnDecision
//
// Its limits first:
//
//   - Clients have pseudonyms, see [middleware.Decision.Pseudonym]: no line holds an address, a
//     key, or anything else that a client has sent.
//   - It is no audit log: it keeps only counts of each minute. An attack cannot fill a disk or
//     a memory with it: each policy takes some 20 KB for any number of refusals.
//   - The first refusal after a quiet minute is logged at once. Later ones of the minute are
//     logged at the first decision after it: there is no goroutine and no timer. If no more
//     requests come, [Log.Flush] logs them.
//   - The number of clients is an estimate, good to some 5 %. The Space-Saving algorithm
//     (Metwally and others, 2005) finds the clients refused most: a client with more than 1/128
//     of a minute's refusals is never missed, and its count is never too high.
package refusallog
