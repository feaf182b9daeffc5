// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// authority returns a configuration of TLS in which each process shows a certificate that all trust.
func authority(t *testing.T) *tls.Config {
	key := kit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := kit.Must(x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key))(t)
	parsed := kit.Must(x509.ParseCertificate(der))(t)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13,
	}
}

// Processes hear each other over TCP, with TLS and without, and nothing readable goes over the wire with it.
func TestOverTCP(t *testing.T) {
	kit.Outside(t)
	for name, secured := range map[string]*tls.Config{"plain": nil, "TLS": authority(t)} {
		t.Run(name, func(t *testing.T) {
			const n = 3
			listeners, list := make([]net.Listener, n), make([]string, n)
			for i := range n {
				l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
				listeners[i], list[i] = l, l.Addr().String()
			}
			all, said := make([]*member, n), new(text)
			kit.Together(n, func(i int) {
				g, err := Open(Config{Members: list, Listener: tapped{listeners[i], said}, Self: list[i], Secrets: secrets, TLS: secured, Logger: slog.New(slog.DiscardHandler)})
				if err == nil {
					all[i] = &member{Group: g}
				}
			})
			for _, m := range all {
				require.NotNil(t, m)
			}
			require.Eventually(t, func() bool {
				return len(all[0].Stats().Heard) == n-1 && len(all[1].Stats().Heard) == n-1 && len(all[2].Stats().Heard) == n-1
			}, time.Minute, time.Millisecond)
			for _, m := range all {
				m.add(1)
			}
			require.Eventually(t, func() bool { return all[0].sum() == n && all[1].sum() == n && all[2].sum() == n }, time.Minute, time.Millisecond)
			require.Equal(t, secured == nil, strings.Contains(said.String(), magic))
			for _, m := range all {
				_ = m.Close(t.Context()) // a machine that is busy may be late
			}
		})
	}
}

// A tapped listener writes down what its end says.
type tapped struct {
	net.Listener
	said io.Writer
}

func (l tapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tap{conn, l.said}, nil
}
