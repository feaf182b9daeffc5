// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"

	"github.com/tallystick/tallystick/storeless"
)

// trust makes connections trust only the certificates of the URL's ca file, such as a
// private CA's.
func trust(given string, config *tls.Config) error {
	u, err := url.Parse(given)
	if err != nil || !u.Query().Has("ca") {
		return nil // what is wrong with it is told by others
	}
	if config == nil {
		return &storeless.ConfigError{Field: "url", Problem: "must be rediss:// to have a ca"}
	}
	pem, err := os.ReadFile(u.Query().Get("ca"))
	if err != nil {
		return &storeless.ConfigError{Field: "url", Problem: "has a ca that cannot be read: " + err.Error()}
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return &storeless.ConfigError{Field: "url", Problem: "has a ca without a certificate in PEM"}
	}
	return nil
}
