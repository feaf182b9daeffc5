// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// private returns a certificate for this machine that nobody else has signed, and the file
// that holds it.
func private(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca & more.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// A private CA is named by URL, and no other is trusted beside it.
func TestPrivateCA(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	cert, file := private(t)
	secure := p.BehindTLS(&tls.Config{Certificates: []tls.Certificate{cert}})
	_, other := private(t)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}
	for _, tt := range []struct{ query, fault string }{
		{"?ca=" + url.QueryEscape(file), ""},
		{"", "certificate signed by unknown authority"},
		{"?ca=" + url.QueryEscape(other), "x509: "},
	} {
		c := unconnected(t, "rediss://"+secure+"/0"+tt.query)
		if tt.fault == "" {
			connected(t, c)
			continue
		}
		require.Eventually(t, func() bool { // an attempt may also end because it takes too long
			_, err := c.Take(t.Context(), call)
			return errors.Is(err, exact.ErrNotCounted) && strings.Contains(err.Error(), tt.fault)
		}, patient, time.Millisecond, tt.fault)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for url, want := range map[string]string{
		"redis://u:secret@localhost/0?ca=" + url.QueryEscape(file):   "url: must be rediss:// to have a ca",
		"rediss://u:secret@localhost/0?ca=" + url.QueryEscape(empty): "url: has a ca without a certificate in PEM",
		"rediss://u:secret@localhost/0?ca=nowhere.pem":               "url: has a ca that cannot be read: open nowhere.pem: no such file or directory",
	} {
		_, err := redis.Open(url, redis.Config{})
		require.EqualError(t, err, want)
	}
}
