// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Config is what a process is in a ring. It is plain data.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Self is the address of this process, host:port, as the others' lists have it. Required.
	Self string

	// Who is in the ring is told by one of these three. A process that its list does not name owns nothing, asks
	// the others, and answers them.

	// Members are the addresses of all processes, Self among them, the same everywhere.
	Members []string

	// DNS is asked again and again: the host of a host:port, for its addresses, of the family of Self, which must be one; or
	// a name that begins with _, such as _ring._tcp.example.com, for its SRV records.
	DNS string

	// Find is asked like DNS. It obeys its context, and returns the addresses of all processes.
	Find func(context.Context) ([]string, error)

	// Secrets authenticate the processes: the first signs, all verify, as in package remote. The first also decides
	// who owns what. Permitted: 1 to 4 of at least 32 random bytes, which serve nothing else.
	// Required.
	Secrets [][]byte

	// Every is how often DNS and Find are asked. What does not answer, or names nobody, leaves the list as it is.
	// Default: 2 s. Permitted: from 100 ms to 1 m.
	Every time.Duration

	// Linger is for how long Close goes on answering those whose lists still name this process. Default: twice
	// Every, and not at all with Members. Longer is better where DNS is cached for longer. Permitted: up to 5 m.
	Linger time.Duration

	// Keys is how many accounts there is room for, as of [memory.New]: 0 is 262,144.
	Keys int

	// Listener is where the others ask, in a network of your own: strangers who connect get no answer, but up to 4,096
	// connections together, each for five seconds of silence. Default: one at Self. Close closes it.
	Listener net.Listener

	// Transport asks the others, as that of package remote. Its default is one for each of them.
	Transport http.RoundTripper

	// Logger is told of the members. Default: slog.Default().
	Logger *slog.Logger

	// Now is the clock of accounts. Default: time.Now.
	Now func() time.Time
}

// Format writes no more than the package's name, so that no log of a Config shows its Secrets.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprint(f, "ring.Config") }

// withDefaults returns c with what it leaves zero filled in, and all problems of it but those of Secrets, which
// package remote reports.
func (c Config) withDefaults() (_ Config, errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &storeless.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	c.Secrets, c.Members = slices.Clone(c.Secrets), slices.Clone(c.Members)
	var err error
	if c.Self, err = addressOf(c.Self); err != nil {
		problem("Self", "%v", err)
	}
	ways := 0
	if c.Members != nil {
		ways++
		if c.Members, err = listOf(c.Members); err != nil {
			problem("Members", "%v", err)
		} else if !slices.Contains(c.Members, c.Self) {
			problem("Members", "must have Self among them, in the same words")
		}
	}
	if c.DNS != "" {
		ways++
		name, err := addressOf(c.DNS)
		_, port, _ := net.SplitHostPort(name)
		is, notIP := netip.ParseAddrPort(c.Self)
		switch {
		case strings.HasPrefix(c.DNS, "_"):
		case err != nil:
			problem("DNS", "%v, or a name that begins with _", err)
		case notIP != nil || strconv.Itoa(int(is.Port())) != port: // nobody would find it
			problem("DNS", "names IP addresses with port %s, of which Self must be one", port)
		}
	}
	if c.Find != nil {
		ways++
	}
	if ways != 1 {
		problem("Members", "one of Members, DNS and Find must say who is in the ring, not %d", ways)
	}
	if c.Every = cmp.Or(c.Every, 2*time.Second); c.Every < 100*time.Millisecond || c.Every > time.Minute {
		problem("Every", "must be from 100ms to 1m, or 0 for 2s, not %s", c.Every)
	}
	if c.Linger == 0 && c.Members == nil {
		c.Linger = 2 * c.Every
	}
	if c.Linger < 0 || c.Linger > 5*time.Minute {
		problem("Linger", "must be from 0 to 5m, not %s", c.Linger)
	}
	if c.Keys < 0 {
		problem("Keys", "must be at least 1, or 0 for 262144")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, errs
}
