// SPDX-License-Identifier: Apache-2.0

// Package house is what the lab attacks: instances of a site, as processes behind a real nginx or within this one, and a
// redis-server. It builds, starts, kills and restarts them.
package house

import (
	"errors"
	"net/netip"
	"os/exec"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/proof/freeport"
)

// A program is another process, which ends with this one's lab. A Ctrl-C is for the lab, which then writes its table.
type program struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	err  error         // of Wait; before that, nobody reads it
}

// launch starts a program.
func launch(cmd *exec.Cmd) (*program, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// kill ends it, by its own process, and waits until it is gone.
func (p *program) kill() error {
	_ = p.cmd.Process.Kill()
	<-p.gone
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		return p.err
	}
	return nil
}

// ready waits until it is.
func (p *program) ready(is func() bool) error {
	for !is() {
		select {
		case <-p.gone:
			return p.err
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// free returns an address that was free a moment ago.
func free() (netip.AddrPort, error) {
	port, err := freeport.Find()
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort("127.0.0.1:" + port)
}
