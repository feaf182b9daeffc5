// SPDX-License-Identifier: Apache-2.0

package house

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecisionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, d := range []Decision{
		{Reason: "within-limits", Own: true, Call: "none"},
		{Reason: "over-limit", Room: true, Inherited: 7, Call: "answered", TokenErr: "token: expired", Late: true, At: 5},
	} {
		read, ok := Parse(http.Header{DecisionHeader: {d.String()}})
		require.True(t, ok)
		require.Equal(t, d, read)
	}
	for _, text := range []string{"", "over-limit", `{"Reason": 7}`} {
		_, ok := Parse(http.Header{DecisionHeader: {text}})
		require.False(t, ok, text)
	}
}
