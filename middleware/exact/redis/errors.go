// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// ErrUnreadable says that the value of a key is no account, a damaged one, or one of a later
// version. Every call for that key fails until it is deleted. It is [exact.ErrNotCounted].
var ErrUnreadable = fmt.Errorf("%w: redis: the account cannot be read", exact.ErrNotCounted)

// ErrStopped says that a counter was closed. It is [exact.ErrNotCounted].
var ErrStopped = fmt.Errorf("%w: redis: the counter was closed", exact.ErrNotCounted)

// refusals are words that a server begins an error with when it has not run a script.
var refusals = []string{
	"OOM", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "BUSY", "TRYAGAIN",
	"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "MOVED", "ASK", "CROSSSLOT", "NOSCRIPT",
}

// unreadable are the errors of an account: all reads come before the first write.
var unreadable = []string{"DAMAGED", "VERSION", "WRONGTYPE"}

// classify says whether a call that failed may have been counted.
func classify(err error) error {
	if err == nil || errors.Is(err, exact.ErrNotCounted) || errors.Is(err, exact.ErrMaybeCounted) {
		return err
	}
	switch {
	case saidOf(err, unreadable):
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	case notSent(err), saidOf(err, refusals):
		return fmt.Errorf("%w: redis: %w", exact.ErrNotCounted, err)
	}
	return fmt.Errorf("%w: redis: %w", exact.ErrMaybeCounted, err)
}

// saidOf reports whether an error is one of the server's that begins with one of some words.
func saidOf(err error, words []string) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && slices.ContainsFunc(words, func(word string) bool { return begins(said.Error(), word) })
}

// begins reports whether an error of the server begins with a word. The error of a script stands
// after it, or before it: "OOM ... script: f_1", or "ERR Error running script ... -OOM ...".
func begins(said, word string) bool {
	return len(said) > len(word) && said[:len(word)] == word && (said[len(word)] == ' ' || said[len(word)] == ':')
}

// notSent reports whether an error says that nothing has left this machine.
func notSent(err error) bool {
	var op *net.OpError
	// Not ErrClosing: commands that are on their way when a client closes get it too.
	return errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, rueidis.ErrNoAddr) ||
		errors.As(err, &op) && op.Op == "dial"
}
