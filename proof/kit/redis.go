// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/proof/freeport"
)

// FreePort is where nobody listens on loopback; a moment later somebody may.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Redis starts a server that keeps nothing, and returns its address once it answers.
func Redis(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		Unable(t, "there is no redis-server (Debian: apt-get install redis-server)")
	}
	for range 10 { // the port may be somebody else's by now
		port := FreePort(t)
		var said strings.Builder
		server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no")
		server.Stdout = &said
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Wait() }()
		t.Cleanup(func() {
			_ = server.Process.Kill()
			<-ended
		})
		for up := true; up; {
			select {
			case <-ended:
				t.Logf("redis-server ended, %s: %s", server.ProcessState, said.String())
				up = false
			case <-time.After(5 * time.Millisecond):
				if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
					_ = c.Close()
					return "127.0.0.1:" + port
				}
			}
		}
	}
	t.Fatal("redis-server does not stay")
	return ""
}
