// SPDX-License-Identifier: Apache-2.0

package sql

// NewRevision draws a revision.
var NewRevision = newRevision

// Classify says what has become of a statement.
var Classify = classify

// ErrPooled says what to do behind a pooler.
var ErrPooled = errPooled

// Insert returns the statement that makes a row.
func Insert(d Dialect) string { return d.statements("", "tallystick").insert }
