// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"os"
	"testing"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestMain(m *testing.M) {
	kit.CollectLess()
	os.Exit(m.Run())
}
