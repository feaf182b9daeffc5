// SPDX-License-Identifier: Apache-2.0

// Package lease takes blocks of quota from an exact counter ahead, and counts within them in the
// process. [New] returns such a counter. It saves most round trips to a hot key, but refuses some
// calls too early near the limit. The counters of packages cas and redis merge calls, which saves round
// trips without early refusals. A call with Costs, as of a policy with units, is in no block: it goes to the counter, and
// the block of its key is given up.
package lease
