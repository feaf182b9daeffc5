// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
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
	exactkit.Paced(t, server.URL, open)
}

func TestMain(m *testing.M) {
	exactkit.Process(open)
	os.Exit(m.Run())
}
