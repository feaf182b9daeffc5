// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
)

func TestDecisionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, d := range []instance.Decision{
		{Reason: "within-limits", Own: true},
		{Reason: "over-limit", Room: true, Inherited: 7},
	} {
		read, ok := instance.Parse(d.String())
		require.True(t, ok)
		require.Equal(t, d, read)
	}
	for _, text := range []string{"", "over-limit", "over-limit own=maybe room=false inherited=0", "over-limit own=true room=false"} {
		_, ok := instance.Parse(text)
		require.False(t, ok, text)
	}
}

func TestModes(t *testing.T) {
	require.Nil(t, instance.Route{Policy: "a"}.Challenge())
	for name, mode := range map[string]middleware.Mode{
		instance.WhenExhausted: middleware.WhenExhausted, instance.Newcomers: middleware.Newcomers, instance.EveryRequest: middleware.EveryRequest,
	} {
		require.Equal(t, mode, instance.Route{Policy: "a", Mode: name}.Challenge().Mode)
	}
}
