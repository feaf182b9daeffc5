// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// maxNodes is how many nodes are told apart. If there are more, some share.
	maxNodes = 32

	slots = 16384

	// A layout is refreshed at this age, and sooner after a failed call.
	layoutAge, layoutAgeAfterFailure = 10 * time.Second, time.Second
)

// A layout maps slots of a cluster to nodes: calls to a node that hangs must not take
// the other nodes' places. The client knows it, but does not tell.
type layout struct {
	nodeOf atomic.Pointer[[slots]uint8] // nil: there is no cluster
	asking atomic.Bool

	mu    sync.Mutex
	asked time.Time
	names map[string]uint8 // of masters, by where they are
}

// part returns the number of the node that has a key.
func (l *layout) part(key string) int {
	nodes := l.nodeOf.Load()
	if nodes == nil {
		return 0
	}
	return int(nodes[slot(key)])
}

// slot returns the slot of a key with a hash tag: CRC-16/XMODEM of what is in braces.
func slot(key string) uint16 {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// refresh asks a cluster for its layout when due. It runs in the goroutine of a call whose
// caller has its answer.
func (l *layout) refresh(client rueidis.Client, failed bool) {
	if client.Mode() != rueidis.ClientModeCluster || !l.asking.CompareAndSwap(false, true) {
		return
	}
	defer l.asking.Store(false)
	l.mu.Lock()
	age := time.Since(l.asked)
	due := age > layoutAge || failed && age > layoutAgeAfterFailure
	if due {
		l.asked = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.ask(client)
	}
}

// ask takes the layout from the first node that answers.
func (l *layout) ask(client rueidis.Client) {
	for _, node := range client.Nodes() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		said, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
		cancel()
		if err == nil && len(said) > 0 {
			l.take(said)
			return
		}
	}
}

// take reads the answer to CLUSTER SLOTS: the first and last slot of each range, and its
// master's address and port, before its replicas'.
func (l *layout) take(ranges []rueidis.RedisMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = make(map[string]uint8)
	}
	nodes := new([slots]uint8)
	for _, r := range ranges {
		words, err := r.ToArray()
		if err != nil || len(words) < 3 {
			return
		}
		first, err1 := words[0].AsInt64()
		last, err2 := words[1].AsInt64()
		master, err3 := words[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 || first < 0 || last >= slots {
			return
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		name := host + " " + strconv.FormatInt(port, 10)
		n, known := l.names[name]
		if !known {
			n = uint8(len(l.names) % maxNodes)
			l.names[name] = n
		}
		for s := first; s <= last; s++ {
			nodes[s] = n
		}
	}
	l.nodeOf.Store(nodes)
}
