// SPDX-License-Identifier: Apache-2.0

// Package page words refusals: problem details for programs (RFC 9457), and pages for
// people, one of which keeps the form that was refused.
//
// No page holds a script, a style or a URL of another origin, so that any
// Content-Security-Policy lets it pass. Nothing in them depends on why a token was not
// accepted. What comes from a request is escaped, and stands in attributes and labels
// alone. The page that keeps a form speaks some languages, the others English.
package page
