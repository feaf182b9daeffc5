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
		secret := make([]byte, 32)
		rand.Read(secret) // never fails
		if o.policyFile != "" {
			return [][]byte{secret}, nil // in case that the file names none
		}
		o.log.Debug("no -secret-file: signing with a fresh random secret; tokens end with this process")
		return [][]byte{secret}, nil
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
