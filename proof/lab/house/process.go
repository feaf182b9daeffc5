// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tallystick/tallystick/proof/program"
)

// A Process is one instance.
type Process struct {
	Where Where
	*program.Program
	door *rpc.Client // by its standard input and output: the process ends with it
	said string      // the file of what it says
}

// launch starts an instance as a process.
func launch(ctx context.Context, dir, made string, cfg Config) (*Process, error) {
	p := &Process{said: filepath.Join(dir, fmt.Sprintf("%d.said", cfg.Process))}
	said, err := os.Create(p.said)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd := exec.CommandContext(ctx, made, "serve")
	cmd.Stderr = said
	cmd.Env = append(os.Environ(), "GORACE=halt_on_error=0 exitcode=0 log_path="+filepath.Join(dir, "race"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.Program, err = program.Start(cmd); err != nil {
		return nil, err
	}
	p.door = jsonrpc.NewClient(pipes{stdout, stdin})
	if err := p.Call("Open", cfg, &p.Where); err != nil {
		p.stop()
		return nil, fmt.Errorf("an instance does not say where it listens: %w: %s", err, p.Said())
	}
	return p, nil
}

// Pipes are a connection.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

// Close ends both ways.
func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// Said is what a process has said.
func (p *Process) Said() string {
	said, _ := os.ReadFile(p.said)
	return fmt.Sprintf("%s: %.2000s", filepath.Base(p.said), said)
}

// stop ends an instance, at once.
func (p *Process) stop() {
	_ = p.door.Close()
	p.Kill()
}

// End asks an instance to end, and says what is wrong with how it does.
func (p *Process) End() error { return p.Program.End(2 * time.Minute) }

// State asks an instance what it has seen.
func (p *Process) State() (s State, err error) { return s, p.Call("State", true, &s) }

// Call has the door of an instance do something.
func (p *Process) Call(what string, with, answer any) error {
	return p.door.Call("Door."+what, with, answer)
}
