// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"os"
	"testing"

	"github.com/tallystick/tallystick/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.CollectLess()
	os.Exit(m.Run())
}
