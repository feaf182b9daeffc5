// SPDX-License-Identifier: Apache-2.0

// Package httpfield parses fields of HTTP requests and responses, as far as the
// middleware needs them: lines of a field in, plain values out.
//
// A request is written by a stranger. Each function bounds how much of a field it
// looks at, and allocates nothing that grows with it.
package httpfield
