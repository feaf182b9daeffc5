// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/handlers"
)

func TestMain(m *testing.M) { handlers.Main(m) }
