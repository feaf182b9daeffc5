// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Config says which processes hear each other. It is plain data.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// The list of all processes comes from one of these three. It says only which addresses are greeted: a process hears
	// each other that greets it with one of its Secrets.

	// Members are host:port of all processes.
	Members []string

	// DNS is asked every two seconds: the host of a host:port, for its addresses, or a name that begins with _, such as
	// _peers._tcp.example.com, for its SRV records.
	DNS string

	// Find is asked like DNS. It obeys its context, and returns host:port of all processes.
	Find func(context.Context) ([]string, error)

	// Self is host:port of this process, as the lists of others have it, and where it listens: at an IP address, or, for
	// a name, at the port on all addresses. Default: the port of DNS or of all Members, on all addresses.
	Self string

	// Secrets authenticate the processes: the first signs, all verify. To rotate, add the new one last everywhere, then
	// move it first, then drop the old one. Permitted: 1 to 4 of at least 32 random bytes that serve nothing else.
	// Required.
	Secrets [][]byte

	// TLS encrypts the connections, for both ends, if it is there. Without it a stranger on the wire reads keyed hashes
	// and counts.
	TLS *tls.Config

	// Listener is where others connect. Default: one at Self. Close closes it.
	Listener net.Listener

	// Dial connects to others. Default: as of [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Logger is told what goes wrong. Default: slog.Default().
	Logger *slog.Logger

	// Now is the clock of windows, as of the policies. Default: time.Now.
	Now func() time.Time
}

// Format writes no more than the package's name, so that no log of a Config shows its Secrets.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprint(f, "peers.Config") }

// every is how often DNS and Find are asked.
const every = 2 * time.Second

const (
	minSecret  = 32
	maxSecrets = 4
)

// withDefaults returns c with what it leaves zero filled in, and all problems of it.
func (c Config) withDefaults() (_ Config, errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("peers: %w", &storeless.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}))
	}
	ways := 0
	var named []string // addresses that have the port of all, if they have one
	if c.Members != nil {
		ways++
		list, err := listOf(c.Members)
		if err != nil {
			problem("Members", "%v; or set DNS or Find instead", err)
		}
		c.Members, named = list, list
	}
	if c.DNS != "" {
		ways++
		if !strings.HasPrefix(c.DNS, "_") {
			named = []string{c.DNS}
			if err := check(c.DNS); err != nil {
				problem("DNS", "%v, or a name that begins with _", err)
			}
		}
	}
	if c.Find != nil {
		ways++
	}
	if ways != 1 {
		problem("Members", "set one of Members, DNS and Find, not %d", ways)
	}
	switch port := portOf(named); {
	case c.Self == "" && c.Listener == nil && port == "" && errs == nil:
		problem("Self", "must be this process's own entry of the list, such as 10.0.0.7:9000, since the list has no one port")
	case c.Self == "" && port != "":
		c.Self = ":" + port
	case c.Self != "" && check(c.Self) != nil:
		problem("Self", "%v", check(c.Self))
	case c.Self != "" && c.Members != nil && !slices.Contains(c.Members, c.Self):
		problem("Self", "must be one of Members, not %s: others connect to what they list", c.Self)
	case c.Self != "" && c.DNS != "" && port != "" && portOf([]string{c.Self}) != port:
		problem("Self", "must have port %s of DNS, where others connect", port)
	}
	c.Secrets = slices.Clone(c.Secrets)
	if len(c.Secrets) < 1 || len(c.Secrets) > maxSecrets {
		problem("Secrets", "must be 1 to %d, not %d", maxSecrets, len(c.Secrets))
	}
	for i, secret := range c.Secrets {
		if len(secret) < minSecret {
			problem(fmt.Sprintf("Secrets[%d]", i), "must be at least %d random bytes, not %d: `openssl rand -base64 32` makes one", minSecret, len(secret))
		}
	}
	if c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil {
		problem("TLS", "must have a certificate: each process is a server too")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, errs
}

// listens returns where this process listens.
func (c Config) listens() string {
	host, port, _ := net.SplitHostPort(c.Self)
	if _, err := netip.ParseAddr(host); err != nil {
		return ":" + port
	}
	return c.Self
}

// here returns the address of this process, as the other end of a connection is to know it.
func (c Config) here(conn net.Conn) string {
	if host, port, _ := net.SplitHostPort(c.Self); host == "" {
		host, _, _ = net.SplitHostPort(conn.LocalAddr().String())
		return net.JoinHostPort(host, port)
	}
	return c.Self
}
