// SPDX-License-Identifier: Apache-2.0

package nats

// Classify says what has become of a swap.
var Classify = classify
