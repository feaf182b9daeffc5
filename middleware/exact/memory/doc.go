// SPDX-License-Identifier: Apache-2.0

// Package memory is the exact counter in the memory of one process. [New] returns it. It is for
// programs of one instance, and for tests: it loses all with its process.
package memory
