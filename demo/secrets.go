package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"unicode"
	"unicode/utf8"
)

// loadSecrets returns the secrets of the file that o names, or a fresh one.
func loadSecrets(o options) ([][]byte, error) {
	if o.secretFile == "" {
		secret := make([]byte, 32)
		rand.Read(secret) // never fails
		o.log.Info("no -secret-file: signing with a fresh random secret; tokens end with this process")
		return [][]byte{secret}, nil
	}
	content, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, err
	}
	secrets := parseSecrets(content)
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret", o.secretFile)
	}
	return secrets, nil
}

// parseSecrets takes a secret file apart. The characters of a line are the
// secret: base64 or hex would have to be told from text by guessing, two
// machines that guess differently share no secret, and the key derivation does
// not care. What is too short is said by middleware.New.
func parseSecrets(content []byte) [][]byte {
	if !isText(content) {
		return [][]byte{content}
	}
	var secrets [][]byte
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			secrets = append(secrets, line)
		}
	}
	return secrets
}

// isText tells a file of lines from one of random bytes, which look like
// text once in more than 10¹⁰ times.
func isText(content []byte) bool {
	return utf8.Valid(content) && !bytes.ContainsFunc(content, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}
