// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/paced"
)

var served = remote.Config{Secrets: [][]byte{make([]byte, 32)}}

func open(url string) (exact.Counter, error) { return remote.Open([]string{url}, served) }

// Real processes share a counter that is served to them; those of package exact/redis share a
// Redis.
func TestPaced(t *testing.T) {
	h, err := remote.Serve(memory.New(0, nil), served)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	paced.Test(t, server.URL, open)
}

func TestPacedChild(t *testing.T) { paced.Child(t, open) }
