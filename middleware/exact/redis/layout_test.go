// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The slots of keys, as the specification of clusters has them, and the nodes of slots.
func TestSlots(t *testing.T) {
	nodes := new([slots]uint8)
	nodes[12182] = 7
	var l layout
	for tag, want := range map[string]uint16{"123456789": 0x31c3, "foo": 12182, "": 0} {
		key := "tallystick:{" + tag + "}:i:x{y}"
		l.nodeOf.Store(nil)
		require.Equal(t, want, slot(key), tag)
		require.Zero(t, l.part(key), "there is no cluster")
		l.nodeOf.Store(nodes)
		require.EqualValues(t, nodes[want], l.part(key))
	}
}
