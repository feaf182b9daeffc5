// SPDX-License-Identifier: Apache-2.0

// Package page words refusals: problem details for programs (RFC 9457), and pages for
// people. One opens the page that was asked for, after some work; one keeps the form that was
// refused.
//
// No page holds a script or a style, but their URLs, nor a URL of another origin, so that
// Content-Security-Policy: default-src 'self' lets it pass. Nothing in them depends on why a token
// was not accepted. Text from a request is escaped, and stands only in attributes, labels and the
// name of the site. Pages speak some languages, problem details English.
package page
