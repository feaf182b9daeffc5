// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/lab/instance"
)

func TestDecisionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, d := range []instance.Decision{
		{Reason: "within-limits", Own: true, Call: "none"},
		{Reason: "over-limit", Room: true, Inherited: 7, Call: "answered", TokenErr: "token: expired", Late: true, At: 5},
	} {
		read, ok := instance.Parse(http.Header{instance.DecisionHeader: {d.String()}})
		require.True(t, ok)
		require.Equal(t, d, read)
	}
	for _, text := range []string{"", "over-limit", `{"Reason": 7}`} {
		_, ok := instance.Parse(http.Header{instance.DecisionHeader: {text}})
		require.False(t, ok, text)
	}
}
