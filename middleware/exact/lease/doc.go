// SPDX-License-Identifier: Apache-2.0

// Package lease takes blocks of quota from an exact counter ahead, and counts within them in the
// process. [New] returns such a counter. It saves most round trips to a hot key, and refuses some
// calls too early near the limit: you choose. To merge calls costs nothing of that, and the counters of
// packages cas and redis do it by themselves. A call with Costs, as of a policy with units, is in no block: it goes
// to the counter, and the block of its key is given up.
package lease
