// SPDX-License-Identifier: Apache-2.0

// Package freeport finds ports for servers that cannot be given a listener.
//
// It promises little: whoever starts a server on a port that is only named may find it taken. What it does away with is
// the usual cause. A port that the kernel chooses (port 0) is of the range that it also gives to every outgoing
// connection, a moment later and whenever the server is started again. These are from below that range.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ephemeral ports begin at 32768 on Linux, at 49152 by RFC 6335, section 6.
const lowest, above = 10_000, 32_768

// Find returns a port of 127.0.0.1 that nobody listens on now.
func Find() (port string, err error) {
	for range 100 {
		port = strconv.Itoa(lowest + rand.IntN(above-lowest))
		l, e := net.Listen("tcp4", "127.0.0.1:"+port)
		if e == nil {
			return port, l.Close()
		}
		err = errors.Join(err, e)
	}
	return "", fmt.Errorf("freeport: every port that was tried is taken: %w", err)
}
