// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"os"
	"testing"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestMain(m *testing.M) {
	exactkit.Process(func(url string) (exact.Counter, error) {
		store, err := dynamodb.New(client(url), dynamodb.Config{Table: "tallies"})
		if err != nil {
			return nil, err
		}
		return cas.New(store, cas.Config{})
	})
	os.Exit(m.Run())
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass, and exactly 1000 are counted also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "starts processes for half a minute")
	s := startServer(t)
	exactkit.AcrossProcesses(t, 2, 100, s.Addr(), url, exactkit.Count(t, connect(t, url(s.Addr()))))
}
