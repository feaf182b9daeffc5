// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	stdin io.Closer // the process ends with it
	files string    // the folder of its temporary files
}

// launch starts an instance as a process.
func launch(ctx context.Context, dir, made string, cfg Config) (*Process, error) {
	p := &Process{files: filepath.Join(dir, fmt.Sprintf("files-%d", cfg.Process))}
	said, err := os.Create(p.files + ".said")
	if err = errors.Join(err, os.Mkdir(p.files, 0o700)); err != nil {
		return nil, err
	}
	defer said.Close()
	cmd := exec.CommandContext(ctx, made, "serve")
	cmd.Stderr = said
	cmd.Env = append(os.Environ(), "TMPDIR="+p.files, "GORACE=halt_on_error=0 exitcode=0 log_path="+filepath.Join(dir, "race"))
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
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
	p.stdin = stdin
	if _, err = stdin.Write(text); err == nil { // without an end of the line, which would be the end of the lab
		err = json.NewDecoder(bufio.NewReader(stdout)).Decode(&p.Where)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("an instance does not say where it listens: %w: %s", err, p.Said())
	}
	return p, nil
}

// Said is what a process has said.
func (p *Process) Said() string {
	said, _ := os.ReadFile(p.files + ".said")
	return fmt.Sprintf("%s: %.2000s", filepath.Base(p.files), said)
}

// stop ends an instance, at once.
func (p *Process) stop() {
	_ = p.stdin.Close()
	p.Kill()
}

// End asks an instance to end, and says what is wrong with how it does.
func (p *Process) End() error { return p.Program.End(2 * time.Minute) }

// State asks an instance what it has seen.
func (p *Process) State() (s State, err error) { return s, p.Get("state?whole=1", &s) }

// Get asks an instance something.
func (p *Process) Get(what string, of any) error {
	resp, err := http.Get(p.back() + what)
	return answer(what, resp, err, of)
}

// Post tells an instance to do something.
func (p *Process) Post(what string, form ...string) error {
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	resp, err := http.PostForm(p.back()+what, values)
	return answer(what, resp, err, nil)
}

func answer(what string, resp *http.Response, err error, of any) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("an instance does not %s: %s", what, resp.Status)
	}
	if of == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(of) // some hundred bytes for each row
}

func (p *Process) back() string { return "http://" + p.Where.Back.String() + "/" }
