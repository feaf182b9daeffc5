// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"os"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

// loadSecrets returns the secrets of the file that o names, or a fresh one.
func loadSecrets(o options) ([][]byte, error) {
	if o.secretFile == "" {
		return [][]byte{[]byte(rand.Text() + rand.Text())}, nil // of this process alone; a policy file may name others
	}
	content, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, err
	}
	secrets := policyfile.Secrets(content)
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret", o.secretFile)
	}
	return secrets, nil
}
