// SPDX-License-Identifier: Apache-2.0

package policyfile

// nonblock is nothing where the host has no such flag.
const nonblock = 0
