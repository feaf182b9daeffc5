// SPDX-License-Identifier: Apache-2.0

// Package slots counts the requests that are being served, by tally: "at most k at once".
//
// It does not bound work. A slot counts while its request runs, but at most for Hold:
// otherwise a client with k idle connections could shut out all that share its tally. So at
// most k + k·(age/Hold) requests of one tally are alive, where age is the oldest's. A caller
// that wants at most k ends the request at Hold.
//
// It holds one entry for each live request, as the server does anyway. There is no
// goroutine and no window; the next call notices what has ended.
package slots
