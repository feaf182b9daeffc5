// SPDX-License-Identifier: Apache-2.0

// Package browser holds tests only: the forms and scripts of package middleware in
// a real Chromium. It is a module of its own so that the driver is no dependency of
// the library. Without /usr/bin/chromium the tests are skipped, with a word on
// standard error, unless TALLYSTICK_REQUIRE=1 makes that a failure.
package browser
