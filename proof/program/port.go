// SPDX-License-Identifier: Apache-2.0

package program

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

// found keeps what was found: a socket without a reference is closed by the collector.
var found sync.Map

// FreePort returns a port of 127.0.0.1, for a server that cannot be given a listener, which no other call returns.
//
// A server on a port that is only named may find it taken or, worse, its clients may find another server there. A port that the
// kernel chooses (port 0) is of the range that it also gives to every outgoing connection: these are from below that range.
// And another process that wants a port, at the same moment or while a server is away, gets another one: each port is
// kept, as one of UDP, until the process ends that has got it.
func FreePort() (port string, err error) {
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
	return "", fmt.Errorf("program: every port that was tried is taken: %w", err)
}
