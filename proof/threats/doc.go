// SPDX-License-Identifier: Apache-2.0

// Package threats shows what each attacker of docs/threats.md gets of a whole site. A subtest is named after
// each threat. Threats to one step of a request are shown beside that step. There are tests alone.
package threats
