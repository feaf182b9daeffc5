// SPDX-License-Identifier: Apache-2.0

// Package freeport finds ports for servers that cannot be given a listener.
//
// Whoever starts a server on a port that is only named may find it taken, or worse: find another's server there, and take
// it for its own. Of that it does away with the usual causes. A port that the kernel chooses (port 0) is of the range that
// it also gives to every outgoing connection, a moment later and whenever the server is started again: these are from
// below that range. And another process that finds a port here, at the same moment or while a server is away, finds
// another one: each port is kept, as one of UDP, until the process ends that has found it.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ephemeral ports begin at 32768 on Linux, at 49152 by RFC 6335, section 6.
const lowest, above = 10_000, 32_768

// found keeps what was found: a socket that nobody refers to is closed by the collector.
var found sync.Map

// Find returns a port of 127.0.0.1 that nobody listens on now, and that no other call finds.
func Find() (port string, err error) {
	for range 100 {
		port = strconv.Itoa(lowest + rand.IntN(above-lowest))
		kept, e := net.ListenPacket("udp4", "127.0.0.1:"+port)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		l, e := net.Listen("tcp4", "127.0.0.1:"+port)
		if e == nil {
			found.Store(port, kept)
			return port, l.Close()
		}
		err = errors.Join(err, e, kept.Close())
	}
	return "", fmt.Errorf("freeport: every port that was tried is taken: %w", err)
}
