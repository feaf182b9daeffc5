// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsNeverNegative(t *testing.T) {
	for _, value := range []string{"9223372036", "9223372037", "18446744073709551615", "18446744073709551616"} {
		require.Equal(t, Forever, RetryAfter(time.Now(), http.Header{"Retry-After": {value}}), value)
	}
}
