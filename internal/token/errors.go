// SPDX-License-Identifier: Apache-2.0

package token

import (
	"errors"
	"fmt"
)

// The refusals, which the public package token describes.
var (
	ErrMalformed = errors.New("token: malformed")
	ErrForeign   = errors.New("token: signed by no key of this policy")
	ErrSecret    = fmt.Errorf("%w: by a secret outside of the ring", ErrForeign)
	ErrForged    = errors.New("token: bad signature")
	ErrExpired   = errors.New("token: expired")
	ErrHolder    = errors.New("token: held by another identity")
)
